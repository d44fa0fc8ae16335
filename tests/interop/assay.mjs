// Lets CosmJS sign the messages of this chain: their types for both kinds of signatures, made from proto/.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";
import { AminoTypes, createDefaultAminoConverters, defaultRegistryTypes } from "@cosmjs/stargate";
import { Registry } from "@cosmjs/proto-signing";

const protos = fileURLToPath(new URL("../../proto/", import.meta.url));
const root = new protobuf.Root();
root.resolvePath = (_, target) => join(protos, target);
const files = readdirSync(protos, { recursive: true }).filter((name) => name.endsWith("tx.proto"));
root.loadSync(files, { keepCase: true });

function* messages(space) {
  for (const one of space.nestedArray) {
    if (one instanceof protobuf.Type) {
      if (/^Msg.*(?<!Response)$/.test(one.name)) yield one;
    } else if (one.nestedArray) {
      yield* messages(one);
    }
  }
}

export const registry = new Registry(defaultRegistryTypes);
const converters = {};
for (const type of messages(root)) {
  const typeUrl = `/${type.fullName.slice(1)}`;
  registry.register(typeUrl, type);
  // Integers of eight bytes are texts, bytes are base64, and empty fields are left out: what protobuf.js can say.
  converters[typeUrl] = {
    aminoType: `assay/${type.name}`,
    toAmino: (value) => type.toObject(type.fromObject(value), { longs: String, bytes: String, arrays: false }),
    fromAmino: (value) => type.fromObject(value),
  };
}
export const aminoTypes = new AminoTypes({ ...createDefaultAminoConverters(), ...converters });
