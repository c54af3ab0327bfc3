/**
 * etcd reads whom it trusts when it starts. So that all members know both authorities while that of the cluster is made anew, and
 * the new one alone afterwards, each starts again: in its turn, one at a time in the cluster, while all others answer.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';
import type { Logger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import { type EtcdClient, connectEtcd } from '@flynn/store/etcd';
import type { EtcdTls } from '@flynn/store/etcd-members';
import { etcdMembership } from '@flynn/store/etcd-membership';
import type { Store } from '@flynn/store/store';
import type { Config } from '../config.ts';
import type { ContainerTable } from '../containers/table.ts';
import { label } from '../engine/labels.ts';
import {
  clientUrlOf,
  readResident,
  residentFile,
  tlsFiles,
  trustedBy,
  trustedLabel,
  withTrusted,
} from './etcd-resident.ts';

/** In the store, for as long as its host's member starts again. */
export const turnKey = '/flynn/cluster/restarting';
const turnTtlSeconds = 30;
/** A member of 2 GiB is there again within one; the image is there already. */
const upMs = 120_000;
const askMs = 5_000;

/** Of the authorities in the host's file, in whatever order: all count alike. Undefined where it has none. */
export async function trustedDigest(stateDir: string): Promise<string | undefined> {
  const text = await readTextFile(join(stateDir, tlsFiles.authority));
  if (text === undefined) return undefined;
  const authorities = text.split(/(?<=-----END CERTIFICATE-----\n)/).toSorted();
  return createHash('sha256').update(authorities.join('')).digest('hex').slice(0, 16);
}

export type MemberTrustDeps = Readonly<{
  hostId: string;
  stateDir: string;
  store: Pick<Store, 'grantLease' | 'transact'>;
  /** Where all members with a vote are asked. */
  voters: () => Promise<readonly string[]>;
  own: string;
  /** A read of this member alone that needs a majority. */
  ask: (clientUrl: string, signal: AbortSignal) => Promise<void>;
  /** Whether a member runs that was started with this digest. */
  runs: (trusted: string) => boolean;
  log: Logger;
}>;

export class MemberTrust {
  readonly #deps: MemberTrustDeps;

  constructor(deps: MemberTrustDeps) {
    this.#deps = deps;
  }

  /**
   * Resolves when the host's member, if it has one, trusts what its file says and answers. `unavailable` while it is another's
   * turn, or while another one does not answer: nothing has happened then.
   */
  async follow(signal: AbortSignal): Promise<void> {
    const { stateDir, store, hostId, log } = this.#deps;
    const wanted = await trustedDigest(stateDir);
    const resident = await readResident(stateDir);
    if (wanted === undefined || resident === undefined) return;
    if (trustedBy(resident) !== wanted) {
      await using turn = await store.grantLease({ ttlSeconds: turnTtlSeconds, signal });
      const taken = await store.transact(
        {
          compare: [{ key: turnKey, createRevision: 0 }],
          then: [{ put: turnKey, value: JSON.stringify({ hostId }), lease: turn.id }],
        },
        { signal },
      );
      if (!taken.succeeded) throw new FlynnError('unavailable', 'another member of etcd starts again at the moment');
      const limit = AbortSignal.any([signal, turn.lost]);
      await this.#askOthers(limit);
      // Taken away meanwhile, it would be there again for good, as a member that nobody counts.
      if (!isDeepStrictEqual(await readResident(stateDir), resident)) {
        throw new FlynnError('unavailable', 'the etcd member of this host became another meanwhile');
      }
      log.info('the etcd member of this host starts again, for it is to trust others');
      await writeFileAtomic(residentFile(stateDir), `${JSON.stringify(withTrusted(resident, wanted), undefined, 2)}\n`);
      await this.#untilBack(wanted, limit);
    } else {
      // An agent that died in between left it to itself.
      await this.#untilBack(wanted, signal);
    }
  }

  async #askOthers(signal: AbortSignal): Promise<void> {
    const { voters, own, ask } = this.#deps;
    const others = (await voters()).filter((url) => url !== own);
    await Promise.all(
      others.map(async (url) => {
        try {
          await ask(url, AbortSignal.any([signal, AbortSignal.timeout(askMs)]));
        } catch (error) {
          throw new FlynnError('unavailable', `the member of etcd at ${url} does not answer: ${messageOf(error)}`);
        }
      }),
    );
  }

  async #untilBack(wanted: string, signal: AbortSignal): Promise<void> {
    const { own, ask, runs } = this.#deps;
    const probe = async (): Promise<boolean> => {
      if (!runs(wanted)) return false;
      await ask(own, AbortSignal.any([signal, AbortSignal.timeout(askMs)]));
      return true;
    };
    await waitFor(probe, { what: 'the etcd member of this host', deadlineMs: upMs, intervalMs: 250, signal });
  }
}

/** Of this host's agent. */
export function memberTrustOf(deps: {
  config: Pick<Config, 'FLYNN_HOST_ID' | 'FLYNN_STATE_DIR' | 'FLYNN_ADDRESS'>;
  store: EtcdClient;
  tls: EtcdTls;
  containers: Pick<ContainerTable, 'all'>;
  log: Logger;
}): MemberTrust {
  const { config, store, tls, containers, log } = deps;
  const { FLYNN_HOST_ID: hostId, FLYNN_STATE_DIR: stateDir, FLYNN_ADDRESS: address } = config;
  return new MemberTrust({
    hostId,
    stateDir,
    store,
    async voters() {
      await using membership = etcdMembership({ endpoints: () => store.endpoints, tls });
      return (await membership.list()).filter(({ isLearner }) => !isLearner).flatMap(({ clientUrls }) => clientUrls);
    },
    own: clientUrlOf(address),
    async ask(clientUrl, signal) {
      await using member = connectEtcd({ endpoints: [clientUrl], tls, log });
      await member.get(cellKeys.host(hostId), { signal });
    },
    runs: (trusted) =>
      containers
        .all()
        .some(({ labels, state }) => state === 'running' && labels[label.metaPrefix + trustedLabel] === trusted),
    log,
  });
}
