import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { decode, encode, streamDecode, streamEncode, RECURSION_DESIRED } from 'dns-packet';
import type { Answer, DecodedPacket, Packet, RecordType } from 'dns-packet';
import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { test } from 'node:test';
import type { Instance } from './api.ts';
import { startDnsServer } from './dns.ts';
import { parseResolvers } from './forward.ts';
import { oldestFirst } from './instances.ts';
import type { RegistryReads } from './registry.ts';

const rcodeOf = (packet: Packet) => (packet.flags ?? 0) & 15;
const dataOf = (packet: Packet) =>
  (packet.answers ?? []).map((a: Answer) => (a.type === 'A' || a.type === 'AAAA' ? a.data : a.type));

function registryOf(...list: [service: string, id: string, address: string][]) {
  const instances = list.map(([service, id, address], at): Instance => ({
    service,
    id,
    address,
    attributes: {},
    createdRevision: at + 1,
  }));
  const of = (service: string) =>
    oldestFirst(new Map(instances.filter((one) => one.service === service).map((one) => [one.id, one])));
  return { instances: of, leader: (service: string) => of(service)[0] };
}

async function askUdp(port: number, query: Packet): Promise<DecodedPacket> {
  const socket = createSocket('udp4');
  try {
    socket.send(encode({ type: 'query', id: 7, flags: RECURSION_DESIRED, ...query }), port, '127.0.0.1');
    const [answer] = await once(socket, 'message', { signal: AbortSignal.timeout(60_000) });
    return decode(answer);
  } finally {
    socket.close();
  }
}

async function askTcp(port: number, query: Packet): Promise<Packet> {
  const socket = connect(port, '127.0.0.1');
  try {
    socket.write(streamEncode({ type: 'query', id: 7, ...query }));
    let received = Buffer.alloc(0);
    for await (const chunk of socket) {
      received = Buffer.concat([received, chunk]);
      if (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) break;
    }
    return streamDecode(received);
  } finally {
    socket.destroy();
  }
}

const opt = (udpPayloadSize: number): Answer => ({
  type: 'OPT',
  name: '.',
  udpPayloadSize,
  extendedRcode: 0,
  ednsVersion: 0,
  flags: 0,
  flag_do: false,
  options: [],
});

const ask = (name: string, type: RecordType = 'A'): Packet => ({ questions: [{ name, type }] });

async function serve(
  registry: Pick<RegistryReads, 'instances' | 'leader'>,
  upstreams: { address: string; port: number }[] = [],
  upstreamTimeoutMs = 30_000,
) {
  const stop = new AbortController();
  const server = await startDnsServer({
    registry: () => registry,
    log: silentLogger(),
    signal: stop.signal,
    address: '127.0.0.1',
    upstreams,
    upstreamTimeoutMs,
  });
  return { port: server.port, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

test('a service name has the addresses of all its instances, echoes the case asked in, and is not to be cached', async () => {
  await using server = await serve(
    registryOf(['web', 'a', '10.0.0.1:80'], ['web', 'b', '10.0.0.2:80'], ['web', 'c', '10.0.0.2:81']),
  );
  const answer = await askUdp(server.port, ask('WeB.flynn'));
  assert.equal(rcodeOf(answer), 0);
  assert.equal(answer.flag_aa, true);
  assert.deepEqual(dataOf(answer).toSorted(), ['10.0.0.1', '10.0.0.2']);
  assert.deepEqual([...new Set(answer.answers?.map(({ name }) => name))], ['WeB.flynn']);
  assert.ok(answer.answers?.every((record) => record.type === 'A' && record.ttl === 0));
});

test('leader.<service> is the oldest instance, and an instance has a name of its own', async () => {
  await using server = await serve(registryOf(['db', 'old', '10.0.0.1:5432'], ['db', 'h1-x.y', '10.0.0.2:5432']));
  assert.deepEqual(dataOf(await askUdp(server.port, ask('leader.db.flynn'))), ['10.0.0.1']);
  assert.deepEqual(dataOf(await askUdp(server.port, ask('h1-x.y.db.flynn'))), ['10.0.0.2']);
});

test('SRV records carry the ports, and their targets can be asked for', async () => {
  await using server = await serve(registryOf(['web', 'a', '10.0.0.1:8080']));
  const answer = await askUdp(server.port, ask('web.flynn', 'SRV'));
  const [record] = answer.answers ?? [];
  assert.ok(record?.type === 'SRV');
  assert.equal(record.data.port, 8080);
  assert.deepEqual(dataOf({ answers: answer.additionals ?? [] }), ['10.0.0.1']);
  assert.deepEqual(dataOf(await askUdp(server.port, ask(record.data.target))), ['10.0.0.1']);
});

test('AAAA of an IPv4 service is empty rather than an error, and a name nobody announced does not exist', async () => {
  await using server = await serve(registryOf(['web', 'a', '10.0.0.1:80']));
  const empty = await askUdp(server.port, ask('web.flynn', 'AAAA'));
  assert.deepEqual([rcodeOf(empty), dataOf(empty)], [0, []]);
  assert.equal(rcodeOf(await askUdp(server.port, ask('nobody.flynn'))), 3);
  assert.equal(rcodeOf(await askUdp(server.port, ask('leader.nobody.flynn'))), 3);
  assert.equal(rcodeOf(await askUdp(server.port, ask('nothere.web.flynn'))), 3);
});

test('an answer too large for UDP is truncated, and complete over TCP and with a larger EDNS size', async () => {
  const many = Array.from({ length: 60 }, (_, n): [string, string, string] => ['web', `i${n}`, `10.0.0.${n}:80`]);
  await using server = await serve(registryOf(...many));
  const cut = await askUdp(server.port, ask('web.flynn'));
  // 12 bytes of head, 15 of question, 25 for each answer: 19 of them are below 512.
  assert.deepEqual([cut.flag_tc, cut.answers?.length], [true, 19]);
  assert.equal(dataOf(await askTcp(server.port, ask('web.flynn'))).length, 60);
  const large = await askUdp(server.port, {
    ...ask('web.flynn'),
    additionals: [opt(4_096)],
  });
  assert.equal(dataOf(large).length, 60);
});

test('other names go to the next upstream when the first is silent, and fail honestly when all are', async () => {
  const silent = createSocket('udp4').bind(0, '127.0.0.1');
  const working = createSocket('udp4').bind(0, '127.0.0.1');
  await Promise.all([once(silent, 'listening'), once(working, 'listening')]);
  working.on('message', (query, from) => {
    const { id, questions } = decode(query);
    const name = questions?.[0]?.name ?? '';
    working.send(
      encode({
        type: 'response',
        id: id ?? 0,
        questions: questions ?? [],
        answers: [{ type: 'A', name, data: '192.0.2.7' }],
      }),
      from.port,
      from.address,
    );
  });
  const first = { address: '127.0.0.1', port: silent.address().port };
  const second = { address: '127.0.0.1', port: working.address().port };
  try {
    // Of both: a machine that stands still for a while is not to silence the second.
    await using server = await serve(registryOf(), [first, second], 4_000);
    assert.deepEqual(dataOf(await askUdp(server.port, ask('example.com'))), ['192.0.2.7']);
    await using cutOff = await serve(registryOf(), [first], 200);
    assert.equal(rcodeOf(await askUdp(cutOff.port, ask('example.com'))), 2);
    await using alone = await serve(registryOf());
    assert.equal(rcodeOf(await askUdp(alone.port, ask('example.com'))), 2);
  } finally {
    silent.close();
    working.close();
  }
});

test('a question over TCP about another name is asked over TCP too', async () => {
  const upstream = createServer((socket) => {
    socket.on('data', (chunk) => {
      const query = streamDecode(chunk);
      socket.end(
        streamEncode({
          type: 'response',
          id: query.id ?? 0,
          questions: query.questions ?? [],
          answers: [{ type: 'A', name: 'example.com', data: '192.0.2.8' }],
        }),
      );
    });
  }).listen(0, '127.0.0.1');
  await once(upstream, 'listening');
  const bound = upstream.address();
  assert.ok(bound !== null && typeof bound === 'object');
  try {
    await using server = await serve(registryOf(), [{ address: '127.0.0.1', port: bound.port }]);
    assert.deepEqual(dataOf(await askTcp(server.port, ask('example.com'))), ['192.0.2.8']);
  } finally {
    upstream.close();
  }
});

test('what is not a question gets no answer, or a format error, and the server goes on', async () => {
  await using server = await serve(registryOf(['web', 'a', '10.0.0.1:80']));
  const socket = createSocket('udp4');
  try {
    socket.send(Buffer.from([1]), server.port, '127.0.0.1');
    socket.send(encode({ type: 'response', id: 1 }), server.port, '127.0.0.1');
    assert.equal(rcodeOf(await askUdp(server.port, { questions: [] })), 1);
    assert.deepEqual(dataOf(await askUdp(server.port, ask('web.flynn'))), ['10.0.0.1']);
  } finally {
    socket.close();
  }
});

test('the resolvers of a host never include the server itself', () => {
  const text = '# nameserver 1.1.1.1\nsearch a\nnameserver 100.64.0.1\nnameserver\t10.0.0.53\nnameserver bogus\n';
  assert.deepEqual(parseResolvers(text, ['100.64.0.1']), [{ address: '10.0.0.53', port: 53 }]);
});

test('an upstream that there is no way to is passed over', async () => {
  const upstream = createSocket('udp4');
  upstream.bind(0, '127.0.0.1');
  await once(upstream, 'listening');
  upstream.on('message', (query, from) => {
    const { id = 0, questions = [] } = decode(query);
    upstream.send(encode({ type: 'response', id, questions }), from.port, from.address);
  });
  const stop = new AbortController();
  await using dns = await startDnsServer({
    registry: () => registryOf(),
    log: silentLogger(),
    signal: stop.signal,
    address: '127.0.0.1',
    // To this address the kernel connects no socket at all, like to an IPv6 one on a host without IPv6.
    upstreams: [
      { address: '255.255.255.255', port: 53 },
      { address: '127.0.0.1', port: upstream.address().port },
    ],
  });
  const answer = await askUdp(dns.port, { questions: [{ type: 'A', name: 'example.com' }] });
  assert.equal(rcodeOf(answer), 0);
  upstream.close();
});

test('before there is a registry own names fail for the moment, and others are answered', async () => {
  const upstream = createSocket('udp4');
  upstream.bind(0, '127.0.0.1');
  await once(upstream, 'listening');
  upstream.on('message', (query, from) => {
    const { id = 0, questions = [] } = decode(query);
    upstream.send(encode({ type: 'response', id, questions }), from.port, from.address);
  });
  const stop = new AbortController();
  let registry: ReturnType<typeof registryOf> | undefined;
  await using dns = await startDnsServer({
    registry: () => registry,
    log: silentLogger(),
    signal: stop.signal,
    address: '127.0.0.1',
    upstreams: [{ address: '127.0.0.1', port: upstream.address().port }],
  });
  for (const via of [askUdp, askTcp]) {
    const early = await via(dns.port, ask('web.flynn'));
    assert.deepEqual([rcodeOf(early), dataOf(early)], [2, []]);
  }
  assert.equal(rcodeOf(await askUdp(dns.port, ask('example.com'))), 0);
  registry = registryOf(['web', 'a', '10.0.0.1:80']);
  assert.deepEqual(dataOf(await askUdp(dns.port, ask('web.flynn'))), ['10.0.0.1']);
  assert.equal(rcodeOf(await askUdp(dns.port, ask('nobody.flynn'))), 3);
  upstream.close();
});

test('SRV is asked by service or port with underscores too, and such names have no address', async () => {
  await using server = await serve(registryOf(['web', 'a', '10.0.0.1:8080'], ['web', 'b', '[fd00::1]:9090']));
  const ports = async (name: string) => {
    const { answers = [], flags } = await askUdp(server.port, ask(name, 'SRV'));
    return [(flags ?? 0) & 15, ...answers.map((a) => (a.type === 'SRV' ? a.data.port : 0)).sort((a, b) => a - b)];
  };
  assert.deepEqual(await ports('_web._tcp.web.flynn'), [0, 8080, 9090]);
  assert.deepEqual(await ports('_web._tcp.flynn'), [0, 8080, 9090]);
  assert.deepEqual(await ports('_9090._tcp.web.flynn'), [0, 9090]);
  assert.deepEqual(await ports('_80._tcp.web.flynn'), [3]);
  assert.deepEqual(await ports('_web._udp.web.flynn'), [3]);
  const address = await askUdp(server.port, ask('_web._tcp.web.flynn'));
  assert.deepEqual([rcodeOf(address), dataOf(address)], [0, []]);
  assert.deepEqual(dataOf(await askUdp(server.port, ask('b.web.flynn', 'AAAA'))), ['fd00::1']);
});

test('the leader that was chosen has the name, and when it is not there nobody', async () => {
  const { instances } = registryOf(['db', 'old', '10.0.0.1:1'], ['db', 'chosen', '10.0.0.2:1']);
  let leader = instances('db')[1];
  const registry = {
    instances,
    leader: () => leader,
  };
  await using server = await serve(registry);
  assert.deepEqual(dataOf(await askUdp(server.port, ask('leader.db.flynn'))), ['10.0.0.2']);
  leader = undefined;
  assert.equal(rcodeOf(await askUdp(server.port, ask('leader.db.flynn'))), 3);
});

test('an instance whose id is no DNS name, or whose address is none, costs the others nothing', async () => {
  const long = 'x'.repeat(100);
  await using server = await serve(
    registryOf(['web', long, '10.0.0.1:80'], ['web', 'a..b', '10.0.0.2:80'], ['web', 'broken', 'nowhere']),
  );
  const { answers = [] } = await askUdp(server.port, { ...ask('web.flynn', 'SRV'), additionals: [opt(4_096)] });
  assert.equal(answers.length, 2);
  const found = [];
  for (const record of answers) {
    assert.ok(record.type === 'SRV');
    found.push(...dataOf(await askUdp(server.port, ask(record.data.target))));
  }
  assert.deepEqual(found.sort(), ['10.0.0.1', '10.0.0.2']);
});

test('answers come in another order each time', async () => {
  const many = Array.from({ length: 8 }, (_, n): [string, string, string] => ['web', `i${n}`, `10.0.0.${n}:80`]);
  await using server = await serve(registryOf(...many));
  const firsts = new Set<unknown>();
  for (let n = 0; n < 50; n += 1) firsts.add(dataOf(await askUdp(server.port, ask('web.flynn')))[0]);
  // All 50 the same has a probability of 8 ^ -49.
  assert.ok(firsts.size > 1);
});

test('what is no query is answered with NOTIMP', async () => {
  await using server = await serve(registryOf(['web', 'a', '10.0.0.1:80']));
  const update = await askUdp(server.port, { ...ask('web.flynn'), flags: 5 << 11 });
  assert.equal(rcodeOf(update), 4);
});

test('who holds connections holds none of the others up', async () => {
  await using server = await serve(registryOf(['web', 'a', '10.0.0.1:80']));
  const from = (localAddress: string) => connect({ port: server.port, host: '127.0.0.1', localAddress });
  const held = Array.from({ length: 40 }, () => from('127.0.0.2').on('error', () => undefined));
  try {
    let closed = 0;
    for (const socket of held) socket.once('close', () => (closed += 1));
    await waitFor(() => closed === 8, { what: 'those beyond 32 to be closed', deadlineMs: 30_000 });
    const { answers = [] } = await askTcp(server.port, ask('web.flynn'));
    assert.equal(answers.length, 1);
  } finally {
    for (const socket of held) socket.destroy();
  }
});
