"""REST of a running node: what needs blocks and transactions, then a validator and schemathesis on openapi.json."""

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

from openapi_spec_validator import OpenAPIV31SpecValidator

URL = os.environ["HYDRANT_RPC_URL"].rstrip("/")
# Cases that are made for each operation beside the systematic ones, and the seed of all of them.
EXAMPLES = 100
SEED = 4
# More than any request may take: a wait for a transaction is half a minute.
REQUEST_SECONDS = 40
# Bounds a run that hangs; one that does not takes about a minute.
SECONDS = 240
# Not asked of us: that whatever fits a pattern is taken. 32 characters of base58 may be 23 bytes, an address
# may hold no mint, and a transaction in base64 is rarely one: no pattern says what is.
CHECKS_LEFT_OUT = "positive_data_acceptance"
# What a systematic run must at least have made, so that it cannot pass by making nothing.
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
        elsewhere = re.findall(rb'(?:src|href|action)=(?!["\']?/v1/)|@import|url\(|https?:|["\']//', body)
        assert not elsewhere, elsewhere

    def step_the_description_is_valid_and_its_examples_are_answered(self):
        document = json.loads(ask("/v1/openapi.json")[2])
        OpenAPIV31SpecValidator(document).validate()
        asked = 0
        for path, verbs in document["paths"].items():
            if "get" not in verbs:
                continue
            params = {it["name"]: it for it in verbs["get"]["parameters"]}
            inside = [it for it in params.values() if it["in"] == "path"]
            # The address that is an example is a program's, and no mint.
            if "mints" in path:
                continue
            for it in inside:
                path = path.replace("{%s}" % it["name"], str(it["example"]))
            needed = [it for it in params.values() if it["in"] == "query" and it["required"]]
            query = "&".join(f"{it['name']}={','.join(it['example'])}" for it in needed)
            status, headers, body = ask(f"{path}?{query}")
            assert status == 200 and headers["hydrant-slot"] and headers["hydrant-commitment"], (path, body)
            asked += 1
        assert asked >= 11, asked

    def step_schemathesis_finds_nothing(self, capsys):
        command = [
            os.path.join(os.path.dirname(sys.executable), "schemathesis"),
            "run", f"{URL}/v1/openapi.json", "--max-examples", str(EXAMPLES), "--seed", str(SEED),
            "--exclude-checks", CHECKS_LEFT_OUT, "--request-timeout", str(REQUEST_SECONDS),
            "--generation-database", "none", "--continue-on-failure", "--no-color",
        ]
        # It keeps what it learned where it runs: not here.
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
