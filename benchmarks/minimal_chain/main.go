// Command minimal_chain is the baseline of `python -m benchmarks tps`: the least chain of the Cosmos SDK that transfers
// coins, with CometBFT in the same process. It has the modules auth, bank and consensus, and the SDK's ante handler.
//
//	minimal_chain HOME
//
// HOME is a home of CometBFT. Its genesis file has the accounts as app_state: {"prefix": …, "denom": …, "accounts":
// [[address, coins], …]}. The line "up" on standard output says that the node runs; SIGTERM ends it.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"cosmossdk.io/log"
	"cosmossdk.io/math"
	storetypes "cosmossdk.io/store/types"
	"cosmossdk.io/x/tx/signing"
	abci "github.com/cometbft/cometbft/abci/types"
	"github.com/cometbft/cometbft/config"
	cmtlog "github.com/cometbft/cometbft/libs/log"
	"github.com/cometbft/cometbft/node"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/privval"
	"github.com/cometbft/cometbft/proxy"
	cmttypes "github.com/cometbft/cometbft/types"
	dbm "github.com/cosmos/cosmos-db"
	"github.com/cosmos/cosmos-sdk/baseapp"
	"github.com/cosmos/cosmos-sdk/codec"
	addresscodec "github.com/cosmos/cosmos-sdk/codec/address"
	codectypes "github.com/cosmos/cosmos-sdk/codec/types"
	"github.com/cosmos/cosmos-sdk/runtime"
	"github.com/cosmos/cosmos-sdk/server"
	"github.com/cosmos/cosmos-sdk/std"
	sdk "github.com/cosmos/cosmos-sdk/types"
	"github.com/cosmos/cosmos-sdk/x/auth/ante"
	authkeeper "github.com/cosmos/cosmos-sdk/x/auth/keeper"
	authtx "github.com/cosmos/cosmos-sdk/x/auth/tx"
	authtypes "github.com/cosmos/cosmos-sdk/x/auth/types"
	bankkeeper "github.com/cosmos/cosmos-sdk/x/bank/keeper"
	banktypes "github.com/cosmos/cosmos-sdk/x/bank/types"
	consensuskeeper "github.com/cosmos/cosmos-sdk/x/consensus/keeper"
	consensustypes "github.com/cosmos/cosmos-sdk/x/consensus/types"
	"github.com/cosmos/gogoproto/proto"
	"github.com/spf13/viper"
)

type genesisState struct {
	Prefix   string     `json:"prefix"`
	Denom    string     `json:"denom"`
	Accounts [][]string `json:"accounts"`
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(home string) error {
	cfg, err := readConfig(home)
	if err != nil {
		return err
	}
	document, err := cmttypes.GenesisDocFromFile(cfg.GenesisFile())
	if err != nil {
		return err
	}
	var genesis genesisState
	if err := json.Unmarshal(document.AppState, &genesis); err != nil {
		return err
	}
	db, err := dbm.NewDB("application", dbm.GoLevelDBBackend, filepath.Join(home, "data"))
	if err != nil {
		return err
	}
	app, err := newApp(log.NewNopLogger(), db, document.ChainID, genesis)
	if err != nil {
		return err
	}
	nodeKey, err := p2p.LoadNodeKey(cfg.NodeKeyFile())
	if err != nil {
		return err
	}
	n, err := node.NewNode(
		cfg,
		privval.LoadFilePV(cfg.PrivValidatorKeyFile(), cfg.PrivValidatorStateFile()),
		nodeKey,
		proxy.NewLocalClientCreator(server.NewCometABCIWrapper(app)),
		node.DefaultGenesisDocProviderFunc(cfg),
		config.DefaultDBProvider,
		node.DefaultMetricsProvider(cfg.Instrumentation),
		cmtlog.NewNopLogger(),
	)
	if err != nil {
		return err
	}
	if err := n.Start(); err != nil {
		return err
	}
	fmt.Println("up")
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	<-ends
	return n.Stop()
}

func readConfig(home string) (*config.Config, error) {
	cfg := config.DefaultConfig()
	v := viper.New()
	v.SetConfigFile(filepath.Join(home, "config", "config.toml"))
	if err := v.ReadInConfig(); err != nil {
		return nil, err
	}
	if err := v.Unmarshal(cfg); err != nil {
		return nil, err
	}
	cfg.SetRoot(home)
	return cfg, cfg.ValidateBasic()
}

func newApp(logger log.Logger, db dbm.DB, chainID string, genesis genesisState) (*baseapp.BaseApp, error) {
	sdk.GetConfig().SetBech32PrefixForAccount(genesis.Prefix, genesis.Prefix+"pub")
	addresses := addresscodec.NewBech32Codec(genesis.Prefix)
	registry, err := codectypes.NewInterfaceRegistryWithOptions(codectypes.InterfaceRegistryOptions{
		ProtoFiles: proto.HybridResolver,
		SigningOptions: signing.Options{
			AddressCodec:          addresses,
			ValidatorAddressCodec: addresscodec.NewBech32Codec(genesis.Prefix + "valoper"),
		},
	})
	if err != nil {
		return nil, err
	}
	std.RegisterInterfaces(registry)
	authtypes.RegisterInterfaces(registry)
	banktypes.RegisterInterfaces(registry)
	cdc := codec.NewProtoCodec(registry)
	txConfig := authtx.NewTxConfig(cdc, authtx.DefaultSignModes)

	app := baseapp.NewBaseApp("minimal", logger, db, txConfig.TxDecoder(), baseapp.SetChainID(chainID))
	app.SetInterfaceRegistry(registry)
	app.SetTxEncoder(txConfig.TxEncoder())
	keys := storetypes.NewKVStoreKeys(authtypes.StoreKey, banktypes.StoreKey, consensustypes.StoreKey)
	authority := authtypes.NewModuleAddress("gov").String()
	store := func(name string) *storetypes.KVStoreKey { return keys[name] }
	consensus := consensuskeeper.NewKeeper(
		cdc, runtime.NewKVStoreService(store(consensustypes.StoreKey)), authority, runtime.EventService{},
	)
	app.SetParamStore(consensus.ParamsStore)
	modules := map[string][]string{authtypes.FeeCollectorName: nil}
	accounts := authkeeper.NewAccountKeeper(
		cdc, runtime.NewKVStoreService(store(authtypes.StoreKey)), authtypes.ProtoBaseAccount, modules, addresses,
		genesis.Prefix, authority,
	)
	bank := bankkeeper.NewBaseKeeper(
		cdc, runtime.NewKVStoreService(store(banktypes.StoreKey)), accounts, map[string]bool{}, authority, logger,
	)
	banktypes.RegisterMsgServer(app.MsgServiceRouter(), bankkeeper.NewMsgServerImpl(bank))
	handler, err := ante.NewAnteHandler(ante.HandlerOptions{
		AccountKeeper:   accounts,
		BankKeeper:      bank,
		SignModeHandler: txConfig.SignModeHandler(),
		SigGasConsumer:  ante.DefaultSigVerificationGasConsumer,
	})
	if err != nil {
		return nil, err
	}
	app.SetAnteHandler(handler)
	app.MountKVStores(keys)
	app.SetInitChainer(func(ctx sdk.Context, req *abci.RequestInitChain) (*abci.ResponseInitChain, error) {
		if err := accounts.Params.Set(ctx, authtypes.DefaultParams()); err != nil {
			return nil, err
		}
		state := banktypes.DefaultGenesisState()
		for _, row := range genesis.Accounts {
			address, err := sdk.AccAddressFromBech32(row[0])
			if err != nil {
				return nil, err
			}
			amount, ok := math.NewIntFromString(row[1])
			if !ok {
				return nil, fmt.Errorf("%s is not an amount", row[1])
			}
			accounts.SetAccount(ctx, accounts.NewAccountWithAddress(ctx, address))
			coins := sdk.NewCoins(sdk.NewCoin(genesis.Denom, amount))
			state.Balances = append(state.Balances, banktypes.Balance{Address: row[0], Coins: coins})
			state.Supply = state.Supply.Add(coins...)
		}
		bank.InitGenesis(ctx, state)
		return &abci.ResponseInitChain{Validators: req.Validators}, nil
	})
	return app, app.LoadLatestVersion()
}
