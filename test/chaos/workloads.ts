/** What the suite keeps running on its cluster: small jobs of every kind, put straight into the cell. */
import { newId } from '@flynn/kit/ids';
import type { WorkloadInput } from '@flynn/scheduler/cell';
import { workloadChange, workloadRemoval } from '@flynn/scheduler/evaluations';
import type { Operation, Store } from '@flynn/store/store';

const mebibyte = 2 ** 20;

/** One process each and a few megabytes: what is tried is who runs where, not what runs. */
const server = String.raw`
use IO::Socket::INET; $SIG{TERM} = sub { exit 0 }; $SIG{PIPE} = 'IGNORE';
my $server = IO::Socket::INET->new(LocalPort => $ENV{PORT}, Listen => 64, ReuseAddr => 1) or die "no socket: $!";
while (1) { my $client = $server->accept or next; <$client>;
print $client "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nup\n"; close $client }`;

/** The variable by which a process of a job is known from outside: see witness.ts. */
export const nameVariable = 'FLYNN_CHAOS';

export const names = {
  web: 'chaos-web',
  everywhere: 'chaos-everywhere',
  /** One there may never be two of; it moves when its host is lost. */
  single: 'chaos-single',
  /** The same with data of its own: it waits for its host. */
  volume: 'chaos-volume',
} as const;

export const webCount = 12;

export type Image = Readonly<{ image: string }>;

type Size = Readonly<{ memoryBytes?: number; cpuMillis?: number }>;

function templateOf(id: string, { image }: Image, size: Size = {}): WorkloadInput['template'] {
  const check = { type: 'http' as const, path: '/', status: 200, intervalMs: 1_000, threshold: 1 };
  return {
    image: { name: image },
    entrypoint: ['/usr/bin/perl', '-e', server],
    command: [],
    env: { [nameVariable]: id },
    ports: [{ port: 8080, service: { name: id, check } }],
    resources: { memoryBytes: size.memoryBytes ?? 24 * mebibyte, cpuMillis: size.cpuMillis ?? 10 },
    stopTimeoutMs: 2_000,
  };
}

export function web(image: Image, count = webCount): WorkloadInput {
  return { id: names.web, kind: 'service', count, version: 'v1', template: templateOf(names.web, image) };
}

function everywhere(image: Image): WorkloadInput {
  return { id: names.everywhere, kind: 'omni', count: 1, version: 'v1', template: templateOf(names.everywhere, image) };
}

function single(image: Image): WorkloadInput {
  const template = templateOf(names.single, image);
  return { id: names.single, kind: 'service', count: 1, version: 'v1', singleton: true, template };
}

function volume(image: Image): WorkloadInput {
  const template = { ...templateOf(names.volume, image), volumes: [{ name: names.volume, path: '/data' }] };
  return { id: names.volume, kind: 'service', count: 1, version: 'v1', singleton: true, template };
}

/** Ends by itself a few seconds later; placed once, whatever becomes of it. */
export function run(id: string, image: Image): WorkloadInput {
  const template: WorkloadInput['template'] = {
    ...templateOf(id, image),
    entrypoint: ['/bin/sleep', '4'],
    ports: [],
    restart: 'never',
  };
  return { id, kind: 'ephemeral', count: 1, version: 'v1', template };
}

/** So large a part of a host that only a few fit. */
export function large(id: string, image: Image, count: number, cpuMillis: number): WorkloadInput {
  return { id, kind: 'service', count, version: 'v1', template: templateOf(id, image, { cpuMillis }) };
}

export function steady(image: Image): WorkloadInput[] {
  return [web(image), everywhere(image), single(image), volume(image)];
}

const context = () => ({ now: Date.now(), newId });

export async function put(store: Store, inputs: readonly WorkloadInput[]): Promise<void> {
  await write(
    store,
    inputs.flatMap((input) => workloadChange(input, context())),
  );
}

export async function remove(store: Store, ids: readonly string[]): Promise<void> {
  await write(
    store,
    ids.flatMap((id) => workloadRemoval(id, context())),
  );
}

async function write(store: Store, then: Operation[]): Promise<void> {
  await store.transact({ then });
}
