//! The spl-token CLI: tokens of both programs, from the mint to the closed account.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::tools::{LedgerName, ToolWorld, with_tools};

/// The owner of the tokens that are sent.
const RECIPIENT: &str = "GyGKxMyg1p9SsHfm15MkNUu1u9TN2JtTspcdmrtGUdse";
const PROGRAM: &str = "spl-token";

#[test]
#[ignore = "needs solana, spl-token"]
fn spl_token_cli_flow_on_dev() -> Result<()> {
    flow(LedgerName::Dev)
}

#[test]
#[ignore = "needs solana, spl-token"]
fn spl_token_cli_flow_on_test_validator() -> Result<()> {
    flow(LedgerName::TestValidator)
}

fn flow(name: LedgerName) -> Result<()> {
    with_tools(name, &[PROGRAM], |world, files| {
        let tool = Tool { world, program: files.first().context("it is there")? };
        tool.token(&[]).context("Token")?;
        tool.token(&["--program-2022"]).context("Token-2022")?;
        tool.native().context("wrapped SOL")?;
        tool.extensions().context("extensions of Token-2022")
    })
}

struct Tool<'a> {
    world: &'a ToolWorld,
    program: &'a Path,
}

impl Tool<'_> {
    fn run(&self, args: &[&str]) -> Result<String> {
        Ok(self.world.run(self.program, args)?.trim().to_owned())
    }

    /// The amount of a token that `owner` has.
    fn ensure_balance(&self, mint: &str, owner: &str, expected: &str) -> Result<()> {
        let balance = self.run(&["balance", mint, "--owner", owner])?;
        ensure!(balance == expected, "{owner} has {balance}, not {expected}");
        Ok(())
    }

    /// The associated account of `owner`.
    fn account(&self, mint: &str, owner: &str) -> Result<String> {
        let args = ["address", "--token", mint, "--owner", owner, "--verbose"];
        let found = self.world.json(self.program, &args)?;
        let address = found["associatedTokenAddress"].as_str();
        Ok(address.with_context(|| format!("no account: {found}"))?.to_owned())
    }

    fn token(&self, program: &[&str]) -> Result<()> {
        let wallet = self.world.wallet.to_string();
        let mint = self.world.keypair("mint.json")?;
        self.run(&[program, &["create-token", "mint.json"]].concat())?;
        self.run(&["create-account", &mint])?;
        self.run(&["mint", &mint, "100"])?;
        ensure!(self.run(&["supply", &mint])? == "100");
        self.run(&[
            "transfer",
            &mint,
            "25",
            RECIPIENT,
            "--fund-recipient",
            "--allow-unfunded-recipient",
        ])?;
        self.ensure_balance(&mint, &wallet, "75")?;
        self.ensure_balance(&mint, RECIPIENT, "25")?;
        let account = self.account(&mint, &wallet)?;
        let list =
            || Ok::<_, anyhow::Error>(self.world.json(self.program, &["accounts"])?.to_string());
        let accounts = list()?;
        ensure!(accounts.contains(&mint), "{accounts}");
        let shown = self.run(&["display", &mint])?;
        ensure!(shown.contains(&mint) && shown.contains("Decimals: 9"), "{shown}");
        self.run(&["approve", &account, "5", RECIPIENT])?;
        ensure!(self.run(&["display", &account])?.contains(RECIPIENT), "the delegate");
        self.run(&["revoke", &account])?;
        ensure!(self.run(&["close", &mint]).is_err(), "it has tokens");
        self.run(&["burn", &account, "75"])?;
        ensure!(self.run(&["supply", &mint])? == "25");
        self.run(&["close", &mint])?;
        let accounts = list()?;
        ensure!(!accounts.contains(&mint), "{accounts}");
        let recipient = self.account(&mint, RECIPIENT)?;
        self.run(&["mint", &mint, "1", &recipient])?;
        self.run(&["authorize", &mint, "mint", "--disable"])?;
        ensure!(self.run(&["mint", &mint, "1", &recipient]).is_err(), "it has no authority");
        self.ensure_balance(&mint, RECIPIENT, "26")
    }

    fn native(&self) -> Result<()> {
        const MINT: &str = "So11111111111111111111111111111111111111112";
        self.run(&["wrap", "1.5"])?;
        // Without the lamports that make the account exempt from rent.
        self.ensure_balance(MINT, &self.world.wallet.to_string(), "1.49796072")?;
        self.run(&["unwrap"])?;
        ensure!(self.run(&["balance", MINT]).is_err(), "the account is closed");
        Ok(())
    }

    /// A mint with metadata and a fee of a tenth.
    fn extensions(&self) -> Result<()> {
        let wallet = self.world.wallet.to_string();
        let mint = self.world.keypair("fees.json")?;
        let create = ["--program-2022", "create-token", "--enable-metadata", "fees.json"];
        let fee = ["--transfer-fee-basis-points", "1000", "--transfer-fee-maximum-fee", "50"];
        self.run(&[&create[..], &fee].concat())?;
        self.run(&[
            "initialize-metadata",
            &mint,
            "Hydra",
            "HYD",
            "https://example.org/hydra.json",
        ])?;
        let shown = self.run(&["display", &mint])?;
        for part in ["Hydra", "HYD", "https://example.org/hydra.json", "1000bps"] {
            ensure!(shown.contains(part), "{part} is not in {shown}");
        }
        self.run(&["create-account", &mint])?;
        self.run(&["mint", &mint, "1000"])?;
        let payer = self.world.path(".config/solana/id.json").display().to_string();
        self.run(&["create-account", &mint, "--owner", RECIPIENT, "--fee-payer", &payer])?;
        let recipient = self.account(&mint, RECIPIENT)?;
        self.run(&["transfer", &mint, "100", &recipient, "--expected-fee", "10"])?;
        self.ensure_balance(&mint, RECIPIENT, "90")?;
        self.ensure_balance(&mint, &wallet, "900")?;
        self.run(&["withdraw-withheld-tokens", &self.account(&mint, &wallet)?, &recipient])?;
        self.ensure_balance(&mint, &wallet, "910")
    }
}
