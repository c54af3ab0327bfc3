import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Run, runProgram } from './program.ts';
import { lookOf, removeLeftPorts, withoutThreads } from './left-ports.ts';

const links = [
  { ifindex: 11, ifname: 'veth1', master: 'flynn0', link_netnsid: 1, link_index: 2 },
  { ifindex: 12, ifname: 'veth2', master: 'flynn0', link_netnsid: 2, link_index: 2 },
  { ifindex: 13, ifname: 'veth3', master: 'docker0', link_netnsid: 3, link_index: 2 },
  { ifindex: 14, ifname: 'veth4', link_netnsid: 4, link_index: 2 },
  // Being made: the other end is not in its container yet, or it is not known where it is.
  { ifindex: 15, ifname: 'veth5', master: 'flynn0', link: 'veth6' },
  { ifindex: 16, ifname: 'veth6', link: 'veth5' },
  { ifindex: 17, ifname: 'veth7', master: 'flynn0', link_netnsid: 7, link_index: 2 },
  { ifindex: 18, ifname: 'veth8', master: 'flynn0', link_netnsid: -1, link_index: 2 },
];
const own = '   120 4026531833 unassigned\n';

/** As the programs answer: ids of networks with a name, and of each network how many processes, its number and its id. */
function answer({ named = '', used }: { named?: string; used: string }): string {
  return `${JSON.stringify(links)}\n---\n${named}---\n${used}`;
}

/** Names of those whose network seems to have no process. */
function withoutOf(said: string): string[] {
  return lookOf(said, 'flynn0').without.map(({ name }) => name);
}

test('a port is left whose network has no process and no name', () => {
  const named = 'nsid 7 (iproute2 netns name: of-somebody)\nnsid 2 \n';
  const look = lookOf(answer({ named, used: `${own}     3 4026532500          1\n` }), 'flynn0');
  assert.deepEqual(look, {
    ports: [
      { name: 'veth1', index: 11 },
      { name: 'veth2', index: 12 },
      { name: 'veth7', index: 17 },
    ],
    without: [{ name: 'veth2', index: 12 }],
    networks: ['4026531833', '4026532500'],
  });
  assert.deepEqual(withoutOf(answer({ used: `${own}1 4026532500 1\n1 4026532501 2\n1 4026532502 7\n` })), []);
  assert.deepEqual(withoutOf(`[]\n---\n---\n${own}`), []);
  assert.deepEqual(withoutOf(`---\n---\n${own}`), [], 'ip says nothing where there is none');
});

test('a network that a file alone holds has no process, and no id by which lsns 2.39 and later would tell it', () => {
  const used = `${own}     0 4026532327           \n     0 4026532328\n     0 4026532329 2\n1 4026532500 1\n`;
  assert.deepEqual(withoutOf(answer({ used })), ['veth2', 'veth7']);
});

test('a network whose process ended in the midst of the look is not among those of which it is known whose ports they have', () => {
  const look = lookOf(answer({ used: `${own}     1 4026532501           \n` }), 'flynn0');
  assert.deepEqual(look.networks, ['4026531833']);
});

test('as long as it is not known which networks have processes none is left', () => {
  for (const used of [
    '',
    '\n',
    `${own}\n`,
    'NPROCS NS NETNSID\n',
    `${own}1 2 3 4\n`,
    '0 4026532327\n',
    '1 4026531833\n',
  ]) {
    assert.throws(() => lookOf(answer({ used }), 'flynn0'), { code: 'unavailable' }, JSON.stringify(used));
  }
});

test('a port whose other end is where a thread is, though no process is, is not left', () => {
  const ports = [
    { name: 'veth1', index: 11 },
    { name: 'veth2', index: 12 },
  ];
  const there = JSON.stringify([{ ifindex: 2, ifname: 'eth0', link_netnsid: 0, link_index: 12 }]);
  assert.deepEqual(withoutThreads(ports, `4026531833 \n4026532500 ${there}\n\n`), [{ name: 'veth1', index: 11 }]);
  assert.deepEqual(withoutThreads(ports, '4026531833 \n4026532500 \n'), ports);
  for (const said of ['\n', `4026531833 \n4026532500 unknown\n`]) {
    assert.throws(() => withoutThreads(ports, said), { code: 'unavailable' });
  }
});

/** Answers the first question with veth2 as without a process, the second with this; and what was taken away. */
function machine(threads: string) {
  const removed: string[] = [];
  const answers = [answer({ used: `${own}1 4026532500 1\n1 4026532502 7\n` }), threads];
  const run: Run = async ({ args }) => {
    const said = answers.shift();
    if (said === undefined) removed.push(...args.slice(3));
    return said ?? '';
  };
  return { removed, run };
}

test('what is left is taken away, unless a container that runs would have no port', async (t) => {
  const threads = '4026531833 \n4026532500 \n4026532502 \n';
  const of = (running: number) => ({ ...machine(threads), bridge: 'flynn0', running: () => running });
  const two = of(2);
  assert.deepEqual(await removeLeftPorts(two, t.signal), ['veth2']);
  assert.deepEqual(two.removed, ['veth2']);
  const three = of(3);
  await assert.rejects(removeLeftPorts(three, t.signal), {
    code: 'unavailable',
    message: /3 containers run, and of 3 ports 1/,
  });
  assert.deepEqual(three.removed, []);
});

/** The true scripts, with some programs replaced. */
function scripted(functions: string): Run {
  return ({ program, args: [option = '', script = '', ...rest] }, signal) =>
    runProgram({ program, args: [option, `${functions}\n${script}`, ...rest] }, signal);
}

test('threads are looked for in all networks but those whose ports are known', async (t) => {
  const ip = `ip() { case "$1" in -j) echo '${JSON.stringify(links)}' ;; link) return 3 ;; esac; }`;
  const options = { bridge: 'flynn0', running: () => 0 };
  // This process is in none of those that lsns tells here.
  const lsns = `lsns() { printf '1 1 unassigned\\n1 2 1\\n1 3 7\\n'; }`;
  const end = `nsenter() { echo '[{"ifindex":2,"ifname":"eth0","link_netnsid":0,"link_index":12}]'; }`;
  assert.deepEqual(await removeLeftPorts({ ...options, run: scripted(`${ip}\n${lsns}\n${end}`) }, t.signal), []);
  const ended = 'nsenter() { return 3; }';
  const run = scripted(`${ip}\n${lsns}\n${ended}`);
  await assert.rejects(removeLeftPorts({ ...options, run }, t.signal), { code: 'unavailable' });
});

test('a program that is missing or fails is no answer', async (t) => {
  for (const program of ['ip', 'lsns']) {
    const run = scripted(`${program}() { return 3; }`);
    await assert.rejects(removeLeftPorts({ bridge: 'flynn0', running: () => 0, run }, t.signal), { code: 'internal' });
  }
});
