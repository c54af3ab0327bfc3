import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { EtcdStatus } from '@flynn/store/etcd-status';
import { installedProgram, isAgentThere } from '../agent-process.ts';
import type { Verdict } from './finding.ts';
import { examineWithoutAgent } from './without-agent.ts';

let stateDir = '';
before(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'flynn-without-agent-'));
  await writeFile(join(stateDir, 'agent.log'), 'began\nwaiting for the container engine: no socket\n');
});
after(() => rm(stateDir, { recursive: true }));

const away = (address: string): EtcdStatus['members'][number] => ({
  endpoint: `https://${address}:2379`,
  error: 'connection refused',
});

const examine = (etcd?: () => Promise<EtcdStatus>) =>
  examineWithoutAgent({
    hostId: 'h1',
    address: '10.0.0.1',
    stateDir,
    certificates: async () => [],
    etcd,
    error: new Error('connection refused'),
    now: Date.now(),
  });

const of = (verdict: Verdict, check: string) => verdict.findings.filter((finding) => finding.check === check);

describe('a host whose agent does not answer', { timeout: 120_000 }, () => {
  it('is told of etcd as well, with what there is to do where the majority is lost', async () => {
    const members = ['10.0.0.1', '10.0.0.2', '10.0.0.3'].map(away);
    const [etcd] = of(await examine(async () => ({ members, alarms: [] })), 'etcd');
    assert.match(
      etcd?.what ?? '',
      /^this host's member, the member at https:\/\/10\.0\.0\.2:2379, .* \(0 of 3 members do\)/,
    );
    assert.match(etcd?.remedy ?? '', /flynn-host etcd recover/);
    assert.deepEqual(of(await examine(), 'etcd'), []);
    const failing = await examine(() => Promise.reject(new Error('no certificate')));
    assert.deepEqual(failing.unknown, [{ check: 'etcd', subject: 'etcd', why: 'no certificate' }]);
  });

  it('is sent to start it where it does not run, and to what it waits for where it does', async () => {
    const [down] = of(await examine(), 'agent');
    assert.match(
      down?.what ?? '',
      /does not run: connection refused; .*: waiting for the container engine: no socket$/,
    );
    assert.match(down?.remedy ?? '', /starts it/);
    const program = installedProgram(stateDir);
    await mkdir(dirname(program), { recursive: true });
    await writeFile(program, 'setInterval(() => {}, 1_000);');
    const agent = spawn(process.execPath, ['--max-semi-space-size=2', program], { stdio: 'ignore' });
    const ended = once(agent, 'exit');
    await waitFor(() => isAgentThere(stateDir), { what: 'the agent', deadlineMs: 60_000 });
    const [waiting] = of(await examine(), 'agent');
    agent.kill('SIGKILL');
    await ended;
    assert.match(waiting?.what ?? '', /^its agent runs and does not answer: connection refused; .*no socket$/);
    assert.doesNotMatch(waiting?.remedy ?? '', /bootstrap|npm run up/);
  });
});
