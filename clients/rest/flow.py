"""REST of a running node: requests that need blocks and transactions, then a validator and schemathesis on openapi.json."""

import base64
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

URL = os.environ["HYDRANT_RPC_URL"].rstrip("/")
# Random cases for each operation besides the systematic ones, and the seed of all of them.
EXAMPLES = 100
SEED = 4
# Longer than any request may take: a wait for a transaction is half a minute.
REQUEST_SECONDS = 40
# Bounds a run that hangs; a normal run takes about a minute.
SECONDS = 240
# Not required: that every string that matches a pattern is accepted. 32 characters of base58 may be 23 bytes, an address
# may hold no mint, and a transaction in base64 is rarely one: no pattern describes these.
CHECKS_LEFT_OUT = "positive_data_acceptance"
# Minimum of a systematic run, so that it cannot pass without any case.
CASES_MIN, OPERATIONS = 3_000, 17


def ask(path, verb="GET", **headers):
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(URL + path, headers=names, method=verb)
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as err:
        return err.code, err.headers, err.read()


def rpc(method, *params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(URL, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
        return json.load(answer)["result"]


def closed(schema):
    """The same schema, without additional members."""
    if isinstance(schema, list):
        return [closed(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    tight = {name: closed(it) for name, it in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        tight.setdefault("additionalProperties", False)
    return tight


class Told:
    """The schemas of responses in openapi.json, strict."""

    def __init__(self):
        self.document = json.loads(ask("/v1/openapi.json")[2])
        self.components = closed(self.document["components"])

    def check(self, operation, answer, status="200"):
        schema = operation["responses"][status]["content"]["application/json"]["schema"]
        validator = Draft202012Validator({**schema, "components": self.components})
        wrong = [f"{err.json_path}: {err.message[:300]}" for err in validator.iter_errors(answer)]
        assert not wrong, (operation["operationId"], wrong[:5])


class StepsOfRest:
    def step_a_transaction_is_waited_for(self):
        to = rpc("getIdentity")["identity"]
        signature = rpc("requestAirdrop", to, 12345)
        path = f"/v1/transactions/{signature}"
        began = time.monotonic()
        for commitment in ("processed", "confirmed", "finalized"):
            status, _, body = ask(f"{path}/status?waitMs=30000&commitment={commitment}")
            assert status == 200, body
            ranks = ["processed", "confirmed", "finalized"]
            assert ranks.index(json.loads(body)["confirmationStatus"]) >= ranks.index(commitment)
        assert time.monotonic() - began < 25, "it was woken, not left to wait"
        StepsOfRest.signature, StepsOfRest.to = signature, to

    def step_a_final_transaction_never_changes(self):
        path = f"/v1/transactions/{self.signature}"
        status, headers, body = ask(path)
        assert status == 200 and "immutable" in headers["cache-control"]
        told = json.loads(body)
        assert headers["hydrant-slot"] == str(told["slot"])
        assert headers["hydrant-commitment"] == "finalized"
        assert ask(path, If_None_Match=headers["etag"])[0] == 304
        StepsOfRest.slot = told["slot"]

    def step_a_transaction_comes_as_it_is(self):
        path = f"/v1/transactions/{self.signature}"
        _, headers, body = ask(path, Accept="application/octet-stream")
        assert headers["content-type"] == "application/octet-stream"
        config = {"encoding": "base64", "maxSupportedTransactionVersion": 1}
        assert body == base64.b64decode(rpc("getTransaction", self.signature, config)["transaction"][0])
        StepsOfRest.raw = body

    def step_a_final_block_never_changes(self):
        path = f"/v1/blocks/{self.slot}?transactionDetails=signatures"
        status, headers, body = ask(path)
        assert status == 200 and "immutable" in headers["cache-control"]
        assert self.signature in json.loads(body)["signatures"]
        assert ask(path, If_None_Match=headers["etag"])[0] == 304

    def step_the_latest_state_is_asked_for_again(self):
        path = f"/v1/accounts/{self.to}?commitment=processed"
        status, headers, _ = ask(path)
        assert (status, headers["cache-control"]) == (200, "no-cache")
        signature = rpc("requestAirdrop", self.to, 12346)
        ask(f"/v1/transactions/{signature}/status?waitMs=30000&commitment=processed")
        status, after, _ = ask(path, If_None_Match=headers["etag"])
        assert status == 200 and after["etag"] != headers["etag"]
        assert int(after["hydrant-slot"]) >= int(headers["hydrant-slot"])

    def step_a_state_is_never_older_than_required(self):
        path = f"/v1/accounts/{self.to}?commitment=confirmed"
        _, headers, _ = ask(path)
        slot = int(headers["hydrant-slot"])
        status, after, _ = ask(path, Hydrant_Min_Slot=str(slot))
        assert status == 200 and int(after["hydrant-slot"]) >= slot
        status, after, body = ask(path, Hydrant_Min_Slot=str(2**50))
        told = json.loads(body)["error"]
        assert (status, told["name"]) == (409, "min_context_slot_not_reached")
        assert told["data"]["minSlot"] == 2**50 and told["data"]["contextSlot"] >= slot
        assert int(after["hydrant-slot"]) <= told["data"]["contextSlot"]
        assert ask(path, Hydrant_Min_Slot="latest")[0] == 400

    def step_answers_are_compressed(self):
        path = "/v1/programs/BPFLoader2111111111111111111111111111111111/accounts"
        _, plain, body = ask(path)
        _, headers, coded = ask(path, Accept_Encoding="gzip")
        assert headers["content-encoding"] == "gzip" and gzip.decompress(coded) == body
        assert len(coded) < len(body) and headers["etag"] != plain["etag"]

    def step_transactions_of_an_address_come_in_pages(self):
        rpc("requestAirdrop", self.to, 12347)
        seen, path = [], f"/v1/accounts/{self.to}/transactions?limit=1"
        for _ in range(10_000):
            _, headers, body = ask(path)
            page = json.loads(body)
            seen += [it["signature"] for it in page["transactions"]]
            if headers["link"] is None or self.signature in seen:
                break
            path = re.fullmatch('<(.+)>; rel="next"', headers["link"])[1]
            assert page["paginationKey"] in path
        assert self.signature in seen and len(seen) == len(set(seen))

    def step_a_transaction_is_submitted_and_simulated(self):
        for path, status in (("/v1/transactions?skipPreflight=true", 202), ("/v1/transactions/simulate", 200)):
            request = urllib.request.Request(URL + path, self.raw, {"Content-Type": "application/octet-stream"})
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
                assert answer.status == status
                told = json.load(answer)
                assert status == 200 or told["signature"] == self.signature

    def step_the_page_needs_nothing_from_elsewhere(self):
        status, headers, body = ask("/v1/")
        assert status == 200 and headers["content-type"].startswith("text/html")
        elsewhere = re.findall(rb'(?:src|href|action)=(?!["\']?(?:/v1/|data:,))|@import|url\(|https?:|["\']//', body)
        assert not elsewhere, elsewhere

    def step_the_description_is_valid_and_its_examples_are_answered_as_it_tells(self):
        told = Told()
        OpenAPIV31SpecValidator(told.document).validate()
        asked = 0
        for path, verbs in told.document["paths"].items():
            if "get" not in verbs:
                continue
            params = {it["name"]: it for it in verbs["get"]["parameters"]}
            for it in (it for it in params.values() if it["in"] == "path"):
                path = path.replace("{%s}" % it["name"], str(it["example"]))
            needed = [it for it in params.values() if it["in"] == "query" and it["required"]]
            needed = [f"{it['name']}={','.join(it['example'])}" for it in needed]
            encodings = params.get("encoding", {"schema": {"enum": ["base64"]}})["schema"]["enum"]
            for encoding in encodings:
                # A list may have accounts that are too long for base58.
                if encoding == "base58" and "transactions" not in path:
                    continue
                query = "&".join(needed + (["encoding=" + encoding.replace("+", "%2B")] if "encoding" in params else []))
                status, headers, body = ask(f"{path}?{query}")
                assert status == 200 and headers["hydrant-slot"] and headers["hydrant-commitment"], (path, body)
                told.check(verbs["get"], json.loads(body))
                asked += 1
        assert asked >= 28, asked

    def step_what_a_transaction_did_and_would_do_is_as_it_is_told(self):
        told = Told()
        path, block = f"/v1/transactions/{self.signature}", f"/v1/blocks/{self.slot}"
        paths = told.document["paths"]
        for encoding in ("json", "jsonParsed", "base64", "base58"):
            told.check(paths["/v1/transactions/{signature}"]["get"], json.loads(ask(f"{path}?encoding={encoding}")[2]))
            for details in ("full", "accounts", "signatures", "none"):
                query = f"encoding={encoding}&transactionDetails={details}"
                told.check(paths["/v1/blocks/{slot}"]["get"], json.loads(ask(f"{block}?{query}")[2]))
        told.check(paths["/v1/transactions/{signature}/status"]["get"], json.loads(ask(path + "/status")[2]))
        simulate = "/v1/transactions/simulate"
        addresses = {"transaction": base64.b64encode(self.raw).decode(), "accounts": [self.to]}
        for query in ("", "?innerInstructions=true&replaceRecentBlockhash=true", "?sigVerify=true"):
            body = json.dumps(addresses).encode()
            request = urllib.request.Request(URL + simulate + query, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
                told.check(paths[simulate]["post"], json.load(answer))

    def step_schemathesis_finds_nothing(self, capsys):
        command = [
            os.path.join(os.path.dirname(sys.executable), "schemathesis"),
            "run", f"{URL}/v1/openapi.json", "--max-examples", str(EXAMPLES), "--seed", str(SEED),
            "--exclude-checks", CHECKS_LEFT_OUT, "--request-timeout", str(REQUEST_SECONDS),
            "--generation-database", "none", "--continue-on-failure", "--no-color",
        ]
        # It stores its examples in the working directory: not here.
        with tempfile.TemporaryDirectory() as place:
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=SECONDS)
        print(done.stdout[-20_000:], done.stderr[-2_000:])
        assert done.returncode == 0
        cases = re.search(r"([\d,]+) generated, ([\d,]+) passed", done.stdout)
        made, passed = (int(number.replace(",", "")) for number in cases.groups())
        operations = int(re.search(r"Tested: (\d+)", done.stdout)[1])
        with capsys.disabled():
            print(f"\nschemathesis: {made} cases over {operations} operations, {made - passed} failing, seed {SEED}")
        assert made >= CASES_MIN and made == passed and operations == OPERATIONS
