/** Who is a member of the etcd cluster: asked and changed one step at a time, as etcd itself demands. */
import { EtcdMembers } from './etcd-members.ts';
import type { EtcdOptions } from './etcd.ts';
import { translateError } from './etcd-wire.ts';

export type EtcdPeer = Readonly<{
  id: string;
  /** Empty as long as it was not started. */
  name: string;
  peerUrls: readonly string[];
  clientUrls: readonly string[];
  /** It gets everything and has no vote. */
  isLearner: boolean;
}>;

/**
 * Errors are the store's: `unavailable` without a majority, or where a change would leave none; `invalid` for what else etcd
 * refuses at this moment.
 */
export interface EtcdMembership extends AsyncDisposable {
  /** As a majority sees them now, not as one member that fell behind remembers. */
  list(): Promise<readonly EtcdPeer[]>;
  /** Answers all members. */
  addLearner(peerUrl: string): Promise<readonly EtcdPeer[]>;
  /** `invalid` while it has not caught up. */
  promote(id: string): Promise<void>;
  /** Where the others are to reach it from now on. */
  move(id: string, peerUrl: string): Promise<void>;
  remove(id: string): Promise<void>;
}

type Row = { ID: string; name: string; peerURLs: string[]; clientURLs: string[]; isLearner?: boolean };

/** `endpoints` is asked before every call: members come and go. */
export function etcdMembership(
  options: Omit<EtcdOptions, 'log' | 'endpoints'> & { endpoints: () => readonly string[] },
): EtcdMembership {
  const members = new EtcdMembers(options.endpoints(), options.tls);
  const timeoutMs = options.timeoutMs ?? 5_000;
  let shown = options.tls?.certificate;
  const peersOf = (rows: readonly Row[]): EtcdPeer[] =>
    rows.map(({ ID: id, name, peerURLs: peerUrls, clientURLs: clientUrls, isLearner = false }) => ({
      id,
      name,
      peerUrls,
      clientUrls,
      isLearner,
    }));
  const call = async <T>(
    what: string,
    send: (member: typeof members.current, deadline: Date) => Promise<T>,
  ): Promise<T> => {
    const endpoints = options.endpoints();
    if (endpoints.join() !== members.endpoints.join()) members.endpoints = endpoints;
    if (shown !== options.tls?.certificate) {
      shown = options.tls?.certificate;
      members.renew(timeoutMs);
    }
    const member = members.current;
    const askedMs = performance.now();
    try {
      return await send(member, new Date(Date.now() + timeoutMs));
    } catch (thrown) {
      const error = translateError(thrown, what);
      members.failed(member, error, askedMs);
      throw error;
    }
  };
  return {
    list: () =>
      call('listing members', async ({ client }, deadline) => {
        const { members: rows } = await client.cluster.memberList({ linearizable: true }, { deadline });
        return peersOf(rows);
      }),
    addLearner: (peerUrl) =>
      call(`adding ${peerUrl}`, async ({ client }, deadline) => {
        const { members: rows } = await client.cluster.memberAdd(
          { peerURLs: [peerUrl], isLearner: true },
          { deadline },
        );
        return peersOf(rows);
      }),
    promote: (id) =>
      call(`promoting member ${id}`, async ({ client }, deadline) => {
        await client.cluster.memberPromote({ ID: id }, { deadline });
      }),
    move: (id, peerUrl) =>
      call(`moving member ${id}`, async ({ client }, deadline) => {
        await client.cluster.memberUpdate({ ID: id, peerURLs: [peerUrl] }, { deadline });
      }),
    remove: (id) =>
      call(`removing member ${id}`, async ({ client }, deadline) => {
        await client.cluster.memberRemove({ ID: id }, { deadline });
      }),
    async [Symbol.asyncDispose]() {
      members.close();
    },
  };
}
