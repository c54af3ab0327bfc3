import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { commandOf, stateAtClose, stateOfMessage, terminalUrl } from './session.ts';

describe('a terminal', () => {
  it('is asked for over TLS where the page came over TLS', () => {
    const size = { columns: 80, rows: 24 };
    const run = new URL(
      terminalUrl({ is: 'run', app: 'shop', command: ['sh', '-c', 'a & b'] }, size, 'https://dash.example.com/apps'),
    );
    assert.deepEqual([run.protocol, run.host, run.pathname], ['wss:', 'dash.example.com', '/terminal/run']);
    assert.equal(run.searchParams.get('command'), '["sh","-c","a & b"]');
    const exec = new URL(
      terminalUrl({ is: 'exec', app: 'shop', job: 'j1', command: ['sh'] }, size, 'http://localhost:1/'),
    );
    assert.deepEqual([exec.protocol, exec.pathname, exec.searchParams.get('job')], ['ws:', '/terminal/exec', 'j1']);
  });

  it('ends as the server says, or fails', () => {
    assert.deepEqual(stateOfMessage('{"type":"exit","code":3}'), { is: 'exited', code: 3 });
    assert.deepEqual(stateOfMessage('{"type":"error","message":"no host has room"}'), {
      is: 'failed',
      why: 'no host has room',
    });
    for (const text of ['{"type":"later"}', 'x', 'null']) assert.equal(stateOfMessage(text), undefined);
    assert.deepEqual(stateAtClose({ is: 'exited', code: 0 }, { code: 1000, reason: '' }), { is: 'exited', code: 0 });
    assert.deepEqual(stateAtClose({ is: 'open' }, { code: 1006, reason: '' }), {
      is: 'failed',
      why: 'the connection broke (1006)',
    });
  });

  it('runs what somebody types through a shell, or one alone', () => {
    assert.deepEqual(commandOf('ls | wc -l'), ['sh', '-c', 'ls | wc -l']);
    const command = commandOf('  ');
    const url = new URL(
      terminalUrl({ is: 'run', app: 'shop', command }, { columns: 80, rows: 24 }, 'http://localhost:1/'),
    );
    assert.equal(url.searchParams.has('command'), false);
  });
});
