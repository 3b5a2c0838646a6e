"""REST of a running node: what needs blocks and transactions, and schemathesis against openapi.json."""

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
import json

URL = os.environ["HYDRANT_RPC_URL"].rstrip("/")
# Cases that are made for each operation, and how long all of them may take.
EXAMPLES = 25
SECONDS = 180
# Not asked of us: that whatever fits a pattern is an address. 32 characters of base58 may be 23 bytes.
CHECKS_LEFT_OUT = "positive_data_acceptance"


def get(path, **headers):
    request = urllib.request.Request(URL + path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=40) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as err:
        return err.code, err.headers, err.read()


def rpc(method, *params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(URL, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=40) as answer:
        return json.load(answer)["result"]


class StepsOfRest:
    to = "SysvarRent111111111111111111111111111111111"[:-1] + "2"

    def step_a_transaction_is_waited_for(self):
        to = rpc("getIdentity")["identity"]
        signature = rpc("requestAirdrop", to, 12345)
        path = f"/v1/transactions/{signature}"
        status, _, body = get(f"{path}/status?waitMs=30000&commitment=finalized")
        assert status == 200, body
        assert json.loads(body)["confirmationStatus"] == "finalized"
        StepsOfRest.signature, StepsOfRest.to = signature, to

    def step_a_final_transaction_never_changes(self):
        path = f"/v1/transactions/{self.signature}"
        status, headers, body = get(path)
        assert status == 200 and "immutable" in headers["cache-control"]
        told = json.loads(body)
        assert headers["hydrant-slot"] == str(told["slot"])
        assert headers["hydrant-commitment"] == "finalized"
        assert get(path, If_None_Match=headers["etag"])[0] == 304
        StepsOfRest.slot = told["slot"]

    def step_a_transaction_comes_as_it_is(self):
        path = f"/v1/transactions/{self.signature}"
        _, headers, body = get(path, Accept="application/octet-stream")
        assert headers["content-type"] == "application/octet-stream"
        config = {"encoding": "base64", "maxSupportedTransactionVersion": 1}
        import base64
        assert body == base64.b64decode(rpc("getTransaction", self.signature, config)["transaction"][0])
        StepsOfRest.raw = body

    def step_a_final_block_never_changes(self):
        status, headers, body = get(f"/v1/blocks/{self.slot}?transactionDetails=signatures")
        assert status == 200 and "immutable" in headers["cache-control"]
        assert self.signature in json.loads(body)["signatures"]

    def step_transactions_of_an_address_come_in_pages(self):
        rpc("requestAirdrop", self.to, 12346)
        seen, cursor = [], ""
        for _ in range(10_000):
            _, _, body = get(f"/v1/accounts/{self.to}/transactions?limit=1{cursor}")
            page = json.loads(body)
            seen += [it["signature"] for it in page["transactions"]]
            if page["paginationKey"] is None or self.signature in seen:
                break
            cursor = f"&cursor={page['paginationKey']}"
        assert self.signature in seen and len(seen) == len(set(seen))

    def step_a_transaction_is_submitted_and_simulated(self):
        for path, status in (("/v1/transactions?skipPreflight=true", 202), ("/v1/transactions/simulate", 200)):
            request = urllib.request.Request(URL + path, self.raw, {"Content-Type": "application/octet-stream"})
            with urllib.request.urlopen(request, timeout=40) as answer:
                assert answer.status == status
                told = json.load(answer)
                assert status == 200 or told["signature"] == self.signature

    def step_schemathesis_finds_nothing(self):
        command = [
            os.path.join(os.path.dirname(sys.executable), "schemathesis"),
            "run", f"{URL}/v1/openapi.json", "--max-examples", str(EXAMPLES),
            "--exclude-checks", CHECKS_LEFT_OUT, "--max-time", str(SECONDS),
            "--generation-deterministic", "--no-color",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 60)
        print(done.stdout[-20_000:], done.stderr[-2_000:])
        assert done.returncode == 0
        cases = re.search(r"([\d,]+) generated", done.stdout)
        assert cases and int(cases[1].replace(",", "")) > 500
