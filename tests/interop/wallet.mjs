// Does with CosmJS what a wallet does: node wallet.mjs RPC_URL CHAIN_ID SECRET_HEX STRANGER VALIDATOR ORDERS.
// Prints one line of JSON. ORDERS is a file with a consumer's secret key and its first orders (MsgSubmitOrder).

import { readFileSync } from "node:fs";
import { MsgSend } from "cosmjs-types/cosmos/bank/v1beta1/tx";
import { SendAuthorization } from "cosmjs-types/cosmos/bank/v1beta1/authz";
import { BasicAllowance } from "cosmjs-types/cosmos/feegrant/v1beta1/feegrant";
import { aminoTypes, registry } from "./assay.mjs";
import {
  GasPrice,
  makeMultisignedTxBytes,
  QueryClient,
  setupGovExtension,
  SigningStargateClient,
  StargateClient,
} from "@cosmjs/stargate";
import { connectComet } from "@cosmjs/tendermint-rpc";
import { DirectSecp256k1HdWallet, DirectSecp256k1Wallet } from "@cosmjs/proto-signing";
import { createMultisigThresholdPubkey, pubkeyToAddress, Secp256k1HdWallet, Secp256k1Wallet } from "@cosmjs/amino";

const [url, chainId, secret, stranger, validator, ordersFile] = process.argv.slice(2);
const prefix = "assay";
const options = { gasPrice: GasPrice.fromString("0.01uassay") };
const coins = (amount) => [{ denom: "uassay", amount: String(amount) }];
const checks = {};

function check(name, isRight, shown) {
  checks[name] = isRight ? true : `wrong: ${JSON.stringify(shown, (_, v) => (typeof v === "bigint" ? String(v) : v))}`;
}

const reader = await StargateClient.connect(url);
check("chain id", (await reader.getChainId()) === chainId, await reader.getChainId());
check("height", (await reader.getHeight()) > 0);
check("block", (await reader.getBlock(2)).header.height === 2);
check("stranger", (await reader.getAccount(stranger)) === null, await reader.getAccount(stranger));
check("no coins", (await reader.getBalance(stranger, "uassay")).amount === "0");
check("no transaction", (await reader.getTx("AB".repeat(32))) === null);

const direct = await DirectSecp256k1Wallet.fromKey(Buffer.from(secret, "hex"), prefix);
const [{ address }] = await direct.getAccounts();
const before = BigInt((await reader.getBalance(address, "uassay")).amount);
check("all balances", (await reader.getAllBalances(address)).length === 1);

const client = await SigningStargateClient.connectWithSigner(url, direct, options);
const sent = await client.sendTokens(address, stranger, coins(1_000), "auto", "direct");
check("direct", sent.code === 0 && sent.height > 0, sent);
check("receiver", (await reader.getBalance(stranger, "uassay")).amount === "1000");
check("fee", BigInt((await reader.getBalance(address, "uassay")).amount) < before - 1_000n);
const stored = await reader.getTx(sent.transactionHash);
check("getTx", stored?.height === sent.height && stored.events.some((event) => event.type === "transfer"), stored);
const listed = await reader.searchTx(`transfer.recipient='${stranger}'`);
check("searchTx", listed.length === 1, listed.length);

const amino = await Secp256k1Wallet.fromKey(Buffer.from(secret, "hex"), prefix);
const ledger = await SigningStargateClient.connectWithSigner(url, amino, options);
const signed = await ledger.sendTokens(address, stranger, coins(2_000), "auto", "amino");
check("amino", signed.code === 0, signed);

const refused = await client.sendTokens(address, stranger, coins(2n ** 64n), "auto").catch((error) => error.message);
check("too much", typeof refused === "string" && /amount|insufficient|large|too much/i.test(refused), refused);

check("no delegation", (await reader.getDelegation(address, validator)) === null);
const delegated = await client.delegateTokens(address, validator, coins(5_000_000)[0], "auto");
check("delegate", delegated.code === 0, delegated);
check("delegation", (await reader.getDelegation(address, validator))?.amount === "5000000");
check("staked", (await reader.getBalanceStaked(address))?.amount === "5000000");
const withdrawn = await client.withdrawRewards(address, validator, "auto");
check("withdraw rewards", withdrawn.code === 0, withdrawn);
const undelegated = await client.undelegateTokens(address, validator, coins(2_000_000)[0], "auto");
check("undelegate", undelegated.code === 0, undelegated);

// A proposal of the Cosmos SDK, and votes in both of its versions.
const proposed = await client.signAndBroadcast(
  address,
  [
    {
      typeUrl: "/cosmos.gov.v1.MsgSubmitProposal",
      value: {
        messages: [],
        initialDeposit: coins(10_000_000),
        proposer: address,
        metadata: "",
        title: "A text",
        summary: "Nothing changes",
        expedited: false,
      },
    },
  ],
  "auto",
);
check("propose", proposed.code === 0, proposed);
const voter = (typeUrl, more) => ({ typeUrl, value: { proposalId: 1n, voter: address, option: 1, ...more } });
const voted = await client.signAndBroadcast(address, [voter("/cosmos.gov.v1.MsgVote", { metadata: "" })], "auto");
check("vote", voted.code === 0, voted);
const again = await ledger.signAndBroadcast(address, [voter("/cosmos.gov.v1beta1.MsgVote", {})], "auto");
check("vote with amino", again.code === 0, again);
const queries = QueryClient.withExtensions(await connectComet(url), setupGovExtension);
const proposal = (await queries.gov.proposal(1)).proposal;
check("proposal", proposal?.proposalId === 1n && proposal.status === 2, String(proposal?.status));
check("tally", (await queries.gov.tally(1)).tally?.yes === "3000000");

// A multisig account of two of three keys.
const people = await Promise.all(
  [1, 2, 3].map(() => Secp256k1HdWallet.generate(12, { prefix })),
);
const accounts = await Promise.all(people.map(async (wallet) => (await wallet.getAccounts())[0]));
const keys = accounts.map((account) => ({
  type: "tendermint/PubKeySecp256k1",
  value: Buffer.from(account.pubkey).toString("base64"),
}));
const shared = createMultisigThresholdPubkey(keys, 2);
const sharedAddress = pubkeyToAddress(shared, prefix);
await client.sendTokens(address, sharedAddress, coins(10_000_000), "auto");
const account = await reader.getAccount(sharedAddress);
const message = {
  typeUrl: "/cosmos.bank.v1beta1.MsgSend",
  value: { fromAddress: sharedAddress, toAddress: stranger, amount: coins(3_000) },
};
const fee = { amount: coins(5_000), gas: "300000" };
const data = { accountNumber: account.accountNumber, sequence: account.sequence, chainId };
const signatures = new Map();
let body;
for (const at of [0, 2]) {
  const signer = await SigningStargateClient.offline(people[at]);
  const part = await signer.sign(accounts[at].address, [message], fee, "shared", data);
  signatures.set(accounts[at].address, part.signatures[0]);
  body = part.bodyBytes;
}
const raw = makeMultisignedTxBytes(shared, account.sequence, fee, body, signatures);
const result = await reader.broadcastTx(raw);
check("multisig", result.code === 0, result);
check("multisig account", (await reader.getAccount(sharedAddress)).pubkey?.type === "tendermint/PubKeyMultisigThreshold");

// Somebody without coins sends for another one, who pays the fee and gave leave to send at most 500.
const friend = await DirectSecp256k1HdWallet.generate(12, { prefix });
const [{ address: grantee }] = await friend.getAccounts();
const soon = { seconds: BigInt(Math.floor(Date.now() / 1000) + 3_600), nanos: 0 };
const granted = await client.signAndBroadcast(
  address,
  [
    {
      typeUrl: "/cosmos.feegrant.v1beta1.MsgGrantAllowance",
      value: {
        granter: address,
        grantee,
        allowance: {
          typeUrl: "/cosmos.feegrant.v1beta1.BasicAllowance",
          value: BasicAllowance.encode({ spendLimit: coins(10_000), expiration: soon }).finish(),
        },
      },
    },
    {
      typeUrl: "/cosmos.authz.v1beta1.MsgGrant",
      value: {
        granter: address,
        grantee,
        grant: {
          authorization: {
            typeUrl: "/cosmos.bank.v1beta1.SendAuthorization",
            value: SendAuthorization.encode({ spendLimit: coins(500), allowList: [] }).finish(),
          },
          expiration: soon,
        },
      },
    },
  ],
  "auto",
);
check("grants", granted.code === 0, granted);
const helper = await SigningStargateClient.connectWithSigner(url, friend, options);
const sendFor = (amount) => ({
  typeUrl: "/cosmos.authz.v1beta1.MsgExec",
  value: {
    grantee,
    msgs: [
      {
        typeUrl: "/cosmos.bank.v1beta1.MsgSend",
        value: MsgSend.encode({ fromAddress: address, toAddress: stranger, amount: coins(amount) }).finish(),
      },
    ],
  },
});
const paid = { amount: coins(4_000), gas: "300000", granter: address };
const held = BigInt((await reader.getBalance(stranger, "uassay")).amount);
const executed = await helper.signAndBroadcast(grantee, [sendFor(400)], paid);
check("exec", executed.code === 0, executed);
check("sent for another", BigInt((await reader.getBalance(stranger, "uassay")).amount) === held + 400n);
const beyond = await helper.signAndBroadcast(grantee, [sendFor(101)], paid).then(
  (result) => result.code,
  (error) => error.message,
);
check("beyond the leave", beyond !== 0, beyond);

// A consumer's orders, with both kinds of signatures.
const { secret: consumerSecret, orders } = JSON.parse(readFileSync(ordersFile, "utf8"));
for (const [at, Wallet] of [DirectSecp256k1Wallet, Secp256k1Wallet].entries()) {
  const wallet = await Wallet.fromKey(Buffer.from(consumerSecret, "hex"), prefix);
  const [{ address: consumer }] = await wallet.getAccounts();
  const buyer = await SigningStargateClient.connectWithSigner(url, wallet, { ...options, registry, aminoTypes });
  const typeUrl = "/assay.market.v1.MsgSubmitOrder";
  const value = registry.lookupType(typeUrl).fromObject(orders[at]);
  const ordered = await buyer.signAndBroadcast(consumer, [{ typeUrl, value }], "auto");
  check(`order ${at}`, ordered.code === 0 && ordered.msgResponses[0].value.length > 32, ordered);
}

console.log(JSON.stringify(checks));
