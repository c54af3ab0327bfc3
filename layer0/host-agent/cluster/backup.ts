/** A snapshot of the cluster's etcd, taken from whichever member answers. The agent need not run for it. */
import { connect } from 'node:net';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { EtcdTls } from '@flynn/store/etcd-members';
import { saveSnapshot } from '@flynn/store/snapshot';
import type { SnapshotFacts } from '@flynn/store/snapshot-file';
import { z } from 'zod';
import { configSchema } from '../config.ts';
import { knownEndpoints } from './membership.ts';
import { readTls } from './start.ts';

const connectMs = 3_000;
/** etcd holds 2 GiB unless told otherwise. */
const memberDeadlineMs = 3 * 60_000;

const etcdConfigSchema = configSchema.pick({
  FLYNN_ETCD_ENDPOINTS: true,
  FLYNN_ETCD_CA_FILE: true,
  FLYNN_ETCD_CERT_FILE: true,
  FLYNN_ETCD_KEY_FILE: true,
});

/**
 * `environment` is the agent's. `unavailable`, with what each member said, if none gives a whole snapshot. Where there is no
 * majority, what one has that lost the others: `isAlone`.
 */
export async function backUp(
  installation: { stateDir: string; environment: Readonly<Record<string, string>> },
  file: string,
): Promise<SnapshotFacts & { endpoint: string; isAlone: boolean }> {
  const { endpoints, tls } = await etcdOf(installation);
  const failures: string[] = [];
  for (const isAlone of [false, true]) {
    failures.length = 0;
    for (const endpoint of endpoints) {
      try {
        await untilConnected(new URL(endpoint));
        const source = { endpoint, isAloneFine: isAlone, ...(tls === undefined ? {} : { tls }) };
        return { ...(await saveSnapshot(source, file, { deadlineMs: memberDeadlineMs })), endpoint, isAlone };
      } catch (error) {
        // What is wrong on this side of the connection is so with every member.
        if (!(error instanceof FlynnError)) throw new FlynnError('invalid', `cannot save ${file}: ${messageOf(error)}`);
        failures.push(`\n  ${endpoint}: ${error.message}`);
      }
    }
  }
  throw new FlynnError('unavailable', `no member of etcd gave a snapshot:${failures.join('')}`);
}

/** Where the cluster's etcd is, and how this host shows who it is. */
export async function etcdOf(installation: {
  stateDir: string;
  environment: Readonly<Record<string, string>>;
}): Promise<{ endpoints: string[]; tls?: EtcdTls }> {
  const config = checked(etcdConfigSchema, installation.environment);
  const tls = await readTls(config);
  const endpoints = await knownEndpoints(installation.stateDir, config.FLYNN_ETCD_ENDPOINTS);
  return tls === undefined ? { endpoints } : { endpoints, tls };
}

function checked<S extends z.ZodType>(schema: S, environment: Readonly<Record<string, string>>): z.output<S> {
  const { data, error } = schema.safeParse(environment);
  if (error !== undefined) throw new FlynnError('invalid', `agent.env is not usable:\n${z.prettifyError(error)}`);
  return data;
}

/** A member that is gone is told from one that is slow within seconds. */
async function untilConnected({ hostname, port }: URL): Promise<void> {
  const socket = connect({ host: hostname, port: Number(port), timeout: connectMs });
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', (error) => reject(new FlynnError('unavailable', messageOf(error), { cause: error })));
      socket.once('timeout', () => reject(new FlynnError('timeout', `no answer within ${connectMs / 1_000} s`)));
    });
  } finally {
    socket.destroy();
  }
}
