/** Members of a datastore in plain containers, with an etcd of their own. For tests. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { waitFor } from '@flynn/kit/retry';
import { testLabel } from '@flynn/kit/testing-label';
import type { Appliance } from './appliance.ts';

const run = promisify(execFile);
const label = ['--label', testLabel];

export type Ended = { code: number; stdout: Buffer; stderr: string };

export type Members = AsyncDisposable & {
  /** A program of the image beside a member, by default one that runs, led to who was the primary when it was last asked for. */
  exec(command: readonly string[], options?: { input?: Uint8Array; member?: number }): Promise<Ended>;
  addressOf(member: number): Promise<string>;
  /** As its host does it, until it has ended. */
  stop(member: number): Promise<void>;
  start(member: number): Promise<void>;
  /** As a host that loses power does it to its programs. */
  kill(member: number): Promise<void>;
  /** One that has ended by itself is begun again, as its host does it. */
  restarted(member: number): Promise<void>;
  nameOf(member: number): string;
  /** It answers nobody until it is thawed. */
  freezeStore(): Promise<void>;
  thawStore(): Promise<void>;
  /** Nothing comes from it or gets there, and nobody is told, until `join`. */
  cutOff(member: number): Promise<void>;
  join(member: number): Promise<void>;
  /** All that it has logged. */
  logOf(member: number): Promise<string>;
  status(): Promise<Status>;
  /** Of whoever was the primary when it was last asked for. */
  primary(): string;
  /** Once a copy may take over; at once where there is one member. */
  copied(): Promise<Status>;
};

export type Status = {
  members: { name: string; address: string; isPrimary: boolean; isSynchronous: boolean; state: string }[];
  database: { version: string; sizeBytes: number; connections: number; maxConnections: number; keys?: number } | null;
  problem: string | null;
};

export type Kind = Readonly<{
  appliance: Appliance;
  image: string;
  /** Of its release, beside what opens the keyspace. */
  secrets: Readonly<Record<string, string>>;
  /** What leads its programs to the primary in the place of the cluster's names. */
  hostVariable: string;
  memoryBytes: number;
}>;

export const keyspace = { name: 'abc', password: 'k' };

/** As the door of a host has it: who shows the password has the keys below the keyspace, and nothing else. */
async function openKeyspace(address: string): Promise<void> {
  const ask = async (path: string, body: object): Promise<void> => {
    const answer = await fetch(`http://${address}:2379/v3/${path}`, { method: 'POST', body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
  };
  const isUp = () => ask('maintenance/status', {}).then(() => true);
  await waitFor(isUp, { what: 'etcd', deadlineMs: 60_000, intervalMs: 200 });
  for (const [user, password] of [
    ['root', 'r'],
    [keyspace.name, keyspace.password],
  ]) {
    await ask('auth/user/add', { name: user, password });
    await ask('auth/role/add', { name: user });
    await ask('auth/user/grant', { user, role: user });
  }
  const [key, end] = ['/', '0'].map((last) =>
    Buffer.from(`/flynn/keyspaces/${keyspace.name}${last}`).toString('base64'),
  );
  await ask('auth/role/grant', { name: keyspace.name, perm: { permType: 'READWRITE', key, range_end: end } });
  await ask('auth/enable', {});
}

/** In memory, and gone with the container. */
function smallDisk(bytes: number, user: string): string[] {
  const options = `o=size=${bytes},uid=${user},gid=${user},mode=0700`;
  return ['type=tmpfs', 'device=tmpfs', options].flatMap((one) => ['--opt', one]);
}

/** Of the images that the run has made ready. `diskBytes`: of each member's volume, which is in its memory then. */
export async function startMembersOf(
  kind: Kind,
  { count, diskBytes }: { count: number; diskBytes?: number },
): Promise<Members> {
  const { appliance, image, secrets, hostVariable, memoryBytes } = kind;
  const { FLYNN_TEST_ETCD_IMAGE: etcdImage = '' } = process.env;
  const { user, dataPath } = appliance;
  const name = `flynn-test-${appliance.name}-${process.pid}`;
  const nameOf = (member: number) => `${name}-${member}`;
  const docker = async (...args: string[]) => (await run('docker', args, { timeout: 120_000 })).stdout.trim();
  const volumes: string[] = [];
  const containers: string[] = [];
  let primary = '127.0.0.1';

  const addressOf = (container: string): Promise<string> =>
    docker('inspect', '--format', '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}', container);

  async function dispose(): Promise<void> {
    if (containers.length > 0) await docker('rm', '--force', '--volumes', ...containers);
    if (volumes.length > 0) await docker('volume', 'rm', ...volumes);
    await docker('network', 'rm', name);
  }

  async function create(member: number): Promise<void> {
    const disk = diskBytes === undefined ? [] : smallDisk(diskBytes, user);
    const volume = await docker('volume', 'create', ...label, ...disk);
    volumes.push(volume);
    const data = ['--volume', `${volume}:${dataPath}`];
    await docker('run', '--rm', ...label, ...data, '--entrypoint', 'chown', image, `${user}:${user}`, dataPath);
    const env = {
      FLYNN_KEYSPACE_NAME: keyspace.name,
      FLYNN_KEYSPACE_URL: `http://${name}-etcd:2379`,
      FLYNN_KEYSPACE_PASSWORD: keyspace.password,
      ...secrets,
    };
    const given = Object.entries(env).flatMap(([key, value]) => ['--env', `${key}=${value}`]);
    containers.push(nameOf(member));
    const more = ['--init', '--network', name, '--user', user, '--memory', `${memoryBytes + (diskBytes ?? 0)}`];
    await docker('run', '--detach', '--name', nameOf(member), ...label, ...more, ...data, ...given, image);
  }

  const stopped = new Set<number>();
  const beside = (): number => (stopped.has(1) ? 2 : 1);

  const exec: Members['exec'] = async (command, { input = new Uint8Array(), member = beside() } = {}) => {
    const child = spawn('docker', [
      'exec',
      '--interactive',
      '--env',
      `${hostVariable}=${primary}`,
      nameOf(member),
      ...command,
    ]);
    // What a program that has failed does not read is not written.
    child.stdin.on('error', () => {});
    child.stdin.end(input);
    const [[code], stdout, stderr] = await Promise.all([
      once(child, 'close'),
      buffer(child.stdout),
      buffer(child.stderr),
    ]);
    return { code: Number(code), stdout, stderr: stderr.toString() };
  };

  const status: Members['status'] = async () => {
    const asked = await exec(appliance.commands.status);
    if (asked.code !== 0) throw new Error(asked.stderr);
    const said = JSON.parse(asked.stdout.toString()) as Status;
    primary = said.members.find(({ isPrimary }) => isPrimary)?.address ?? primary;
    return said;
  };

  const copied: Members['copied'] = () =>
    waitFor(
      async () => {
        const said = await status();
        return count === 1 || said.members.some((one) => one.isSynchronous) ? said : undefined;
      },
      { what: 'a copy of all that is committed', deadlineMs: 60_000, intervalMs: 500 },
    );

  try {
    await docker('network', 'create', ...label, name);
    const urls = ['--listen-client-urls', 'http://0.0.0.0:2379', '--advertise-client-urls', `http://${name}-etcd:2379`];
    containers.push(`${name}-etcd`);
    const etcd = ['--name', `${name}-etcd`, '--network', name, ...label, '--entrypoint', 'etcd'];
    await docker('run', '--detach', ...etcd, etcdImage, '--data-dir', '/tmp/etcd', ...urls);
    await openKeyspace(await addressOf(`${name}-etcd`));
    for (let member = 1; member <= count; member += 1) await create(member);
    const isUp = async (): Promise<boolean> => {
      const { members } = await status();
      return members.filter(({ state }) => state === 'running' || state === 'streaming').length === count;
    };
    await waitFor(isUp, { what: 'the members', deadlineMs: 120_000, intervalMs: 500 });
    await copied();
    await waitFor(async () => (await status()).database !== null, {
      what: 'the database',
      deadlineMs: 60_000,
      intervalMs: 500,
    });
  } catch (error) {
    await dispose();
    throw error;
  }

  return {
    exec,
    status,
    copied,
    primary: () => primary,
    addressOf: (member) => addressOf(nameOf(member)),
    async stop(member) {
      await docker('stop', '-t', '60', nameOf(member));
      stopped.add(member);
    },
    nameOf,
    async kill(member) {
      await docker('kill', nameOf(member));
      stopped.add(member);
    },
    async restarted(member) {
      await docker('wait', nameOf(member));
      await docker('start', nameOf(member));
    },
    async freezeStore() {
      await docker('pause', `${name}-etcd`);
    },
    async thawStore() {
      await docker('unpause', `${name}-etcd`);
    },
    async start(member) {
      await docker('start', nameOf(member));
      stopped.delete(member);
    },
    async cutOff(member) {
      await docker('network', 'disconnect', name, nameOf(member));
      stopped.add(member);
    },
    async join(member) {
      await docker('network', 'connect', name, nameOf(member));
      stopped.delete(member);
    },
    async logOf(member) {
      const { stdout, stderr } = await run('docker', ['logs', nameOf(member)], { maxBuffer: 64 * 1024 ** 2 });
      return stdout + stderr;
    },
    [Symbol.asyncDispose]: dispose,
  };
}
