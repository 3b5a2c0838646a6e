"""The messages and the client of Yellowstone's proto, made by grpcio-tools when this module is imported.

The proto files are those of the crate from which the node is built (`HYDRANT_PROTO`). What is made of them lives in a
temporary folder until the process ends.
"""

import os
import sys
import tempfile
from importlib.resources import files

from grpc_tools import protoc

_folder = tempfile.TemporaryDirectory(prefix="hydrant-py-grpc-")
_proto = os.environ["HYDRANT_PROTO"]
_made = protoc.main(
    [
        "protoc",
        f"-I{_proto}",
        f"-I{files('grpc_tools') / '_proto'}",
        f"--python_out={_folder.name}",
        f"--grpc_python_out={_folder.name}",
        "geyser.proto",
        "solana-storage.proto",
    ]
)
assert _made == 0, f"protoc ended with {_made}"
sys.path.insert(0, _folder.name)

import geyser_pb2 as messages  # noqa: E402
import geyser_pb2_grpc as services  # noqa: E402

__all__ = ["messages", "services"]
