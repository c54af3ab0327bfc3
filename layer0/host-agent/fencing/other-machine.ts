/**
 * Was another machine seen to be this host, for certain? Then this one does not become it by itself when that one is off for a
 * moment, however often it is restarted itself: which of the two is the host, people say.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '@flynn/kit/errors';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import type { Logger } from '@flynn/kit/log';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { z } from 'zod';

const schema = z.object({
  /** In its own network, where it is behind NAT. */
  address: z.string(),
  seenAt: z.number(),
});
export type SeenMachine = z.output<typeof schema>;

/** INVARIANT. Only who says that this machine is the host takes the file away, or an agent whose machine has that address. */
const fileOf = (stateDir: string): string => join(stateDir, 'other-machine.json');

export type OtherMachineFile = Readonly<{
  /** Of none of the machine's own addresses: with that it is where the host is. */
  read: (ownAddresses: ReadonlySet<string>) => Promise<SeenMachine | undefined>;
  note: (seen: SeenMachine) => Promise<void>;
  forget: () => Promise<void>;
}>;

/** A disk that takes nothing, or cannot be read, keeps no host out. */
export function otherMachineFile(stateDir: string, log: Pick<Logger, 'warn'>): OtherMachineFile {
  const file = fileOf(stateDir);
  const read = async (): Promise<SeenMachine | undefined> => {
    try {
      return await readJsonFile(file, schema);
    } catch (error) {
      log.warn(`whether another machine was this host is not known: ${messageOf(error)}`);
      return undefined;
    }
  };
  return {
    async read(ownAddresses) {
      const seen = await read();
      return seen === undefined || ownAddresses.has(seen.address) ? undefined : seen;
    },
    async note(seen) {
      try {
        if ((await read())?.address !== seen.address) await writeFileAtomic(file, JSON.stringify(seen));
      } catch (error) {
        log.warn(`that another machine is this host is forgotten when that is off: ${messageOf(error)}`);
      }
    },
    forget: () => rm(file, { force: true }),
  };
}

/** Why this one waits, and what people can do. */
export function asideText({ address, seenAt }: SeenMachine): string {
  return `another machine was this host too, at ${address} (seen ${new Date(seenAt).toISOString()}), and this one does not take its place by itself. ${asideRemedy}`;
}

export const asideRemedy = `Is the other one gone for good, and this one to be the host: ${eitherCommand('up')} here, with FLYNN_ADDRESS=ADDRESS before it where this machine has another address than the host had. Is this one the copy: switch it off`;
