/** Several etcd members on loopback, for tests: with TLS for clients and peers, and members that fail one by one. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { freePorts } from '@flynn/kit/testing-ports';
import { createMember } from './etcd-member.ts';
import type { EtcdMember, MemberPlace, RunnableMember } from './etcd-member.ts';
import type { EtcdTls } from './etcd-members.ts';
import type { RunnerOptions } from './etcd-runner.ts';

export interface EtcdCluster extends AsyncDisposable {
  readonly members: readonly EtcdMember[];
  readonly endpoints: readonly string[];
  /** What a client shows and trusts; undefined without TLS. */
  readonly tls: EtcdTls | undefined;
  /** Waits for an election. Frozen and killed members do not count. */
  leader(): Promise<EtcdMember>;
  stop(): Promise<void>;
}

export type EtcdClusterOptions = Omit<RunnerOptions, 'dataDir'> & {
  /** Default 3. */
  members?: number;
  /** Default false. */
  tls?: boolean;
};

/** Resolves when every member serves. They do not sync to disk. */
export async function startEtcdCluster(options: EtcdClusterOptions = {}): Promise<EtcdCluster> {
  const count = options.members ?? 3;
  const ports = await freePorts(3 * count);
  const places = Array.from({ length: count }, (_, i): MemberPlace => {
    const [port = 0, peerPort = 0, statusPort = 0] = ports.slice(3 * i, 3 * i + 3);
    return { name: `member${i}`, port, peerPort, statusPort };
  });
  const secrets = options.tls === true ? await makeSecrets() : undefined;
  const group = { members: places, ...(secrets === undefined ? {} : { tlsFolder: secrets.folder }) };
  const members: RunnableMember[] = [];
  const stop = async () => {
    await Promise.all(members.map((member) => member.stop()));
    if (secrets !== undefined) await rm(secrets.folder, { recursive: true, force: true });
  };
  try {
    for (const place of places) members.push(await createMember(options, place, group));
    await Promise.all(members.map((member) => member.launch()));
    await Promise.all(members.map((member) => member.untilHealthy()));
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    members,
    endpoints: members.map((member) => member.endpoint),
    tls: secrets?.client,
    leader: () => findLeader(members),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function findLeader(members: readonly EtcdMember[]): Promise<EtcdMember> {
  return await waitFor(
    () =>
      Promise.any(
        members.map(async (member) => {
          if (await member.isLeader()) return member;
          throw new FlynnError('unavailable', `${member.endpoint} does not lead`);
        }),
      ),
    { what: 'an etcd leader', deadlineMs: 60_000 },
  );
}

/** One certificate for all members, one for clients. */
async function makeSecrets(): Promise<{ folder: string; client: EtcdTls }> {
  const authority = await createAuthority('flynn test');
  const addresses = ['127.0.0.1', 'localhost'];
  const [member, client] = await Promise.all([
    issueCertificate(authority, { name: 'member', addresses }),
    issueCertificate(authority, { name: 'client' }),
  ]);
  const folder = await mkdtemp(path.join(tmpdir(), 'flynn-etcd-tls-'));
  await Promise.all([
    writeFile(path.join(folder, 'ca.pem'), authority.certificate),
    writeFile(path.join(folder, 'member.pem'), member.certificate),
    writeFile(path.join(folder, 'member-key.pem'), member.privateKey, { mode: 0o600 }),
  ]);
  return { folder, client: { ca: authority.certificate, ...client } };
}

/** Clients of other authorities, and members that are none of ours. */
export async function foreignTls(): Promise<EtcdTls> {
  const authority = await createAuthority('somebody else');
  const client = await issueCertificate(authority, { name: 'client' });
  return { ca: authority.certificate, ...client };
}
