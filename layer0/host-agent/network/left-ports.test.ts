import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Run, runProgram } from './program.ts';
import { leftPorts, removeLeftPorts } from './left-ports.ts';

const links = [
  { ifname: 'veth1', master: 'flynn0', link_netnsid: 1 },
  { ifname: 'veth2', master: 'flynn0', link_netnsid: 2 },
  { ifname: 'veth3', master: 'docker0', link_netnsid: 3 },
  { ifname: 'veth4', link_netnsid: 4 },
  // Being made: the other end is not in its container yet.
  { ifname: 'veth5', master: 'flynn0', link: 'veth6' },
  { ifname: 'veth6', link: 'veth5' },
  { ifname: 'veth7', master: 'flynn0', link_netnsid: 7 },
];

/** As the programs answer: ids of networks with a name, and of those with processes. */
function answer({ named = '', used }: { named?: string; used: string }): string {
  return `${JSON.stringify(links)}\n---\n${named}---\n${used}`;
}

test('a port is left whose network has no process and no name', () => {
  const named = 'nsid 7 (iproute2 netns name: of-somebody)\nnsid 2 \n';
  assert.deepEqual(leftPorts(answer({ named, used: 'unassigned\n         1\n' }), 'flynn0'), ['veth2']);
  assert.deepEqual(leftPorts(answer({ used: 'unassigned\n1\n2\n7\n' }), 'flynn0'), []);
  assert.deepEqual(leftPorts('[]\n---\n---\nunassigned\n', 'flynn0'), []);
  assert.deepEqual(leftPorts('---\n---\nunassigned\n', 'flynn0'), [], 'ip says nothing where there is none');
});

test('as long as it is not known which networks have processes none is left', () => {
  for (const used of ['', '\n', 'unassigned\n\n', 'NETNSID\n', '1 2\n']) {
    assert.throws(() => leftPorts(answer({ used }), 'flynn0'), { code: 'unavailable' }, JSON.stringify(used));
  }
});

test('a look that says too little is taken again', async (t) => {
  const answers = ['unassigned\n\n', 'unassigned\n1\n7\n'];
  const asked: string[] = [];
  const run: Run = async ({ args }) => {
    asked.push(args.slice(3).join(' '));
    const used = answers.shift();
    return used === undefined ? '' : answer({ used });
  };
  assert.deepEqual(await removeLeftPorts('flynn0', run, t.signal), ['veth2']);
  assert.deepEqual(asked, ['', '', 'veth2']);
});

test('a program that is missing or fails is no answer', async (t) => {
  for (const program of ['ip', 'lsns']) {
    await assert.rejects(
      removeLeftPorts(
        'flynn0',
        ({ args: [option = '', script = '', ...rest] }, signal) =>
          runProgram({ program: 'sh', args: [option, `${program}() { return 3; }\n${script}`, ...rest] }, signal),
        t.signal,
      ),
      { code: 'internal' },
    );
  }
});
