import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { otherMachineFile } from '@flynn/host-agent/fencing/other-machine';
import { writeUpdate } from '@flynn/host-agent/update/record';
import { silentLogger } from '@flynn/kit/log';
import { mayBegin } from './bring-up.ts';
import { type Asked, refuseOtherMachine } from '../joining/other-machine.ts';
import { made } from '../cluster-fixture.ts';
import { readOptions } from '../settings.ts';
import { checkUpdated } from '../update/unended.ts';

test('a host that stands aside is the host by up in the middle of an update too, if the machine is ready for it', async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), 'flynn-bring-up-'));
  const options = readOptions({ FLYNN_STATE_DIR: dir.path });
  const stored = made();
  const own = new Set([stored.address]);
  const file = otherMachineFile(dir.path, silentLogger());
  await file.note({ address: '10.9.9.9', seenAt: 1 });
  await writeUpdate(dir.path, { version: '0.2.0', since: '2026-06-01T12:00:00Z' });
  const asked: Asked = {
    addresses: async () => own,
    record: async () => undefined,
    agentSince: async () => undefined,
    report: () => undefined,
  };
  const started: boolean[] = [];
  const up = (isReady: boolean) =>
    mayBegin({
      isReady: async () => isReady,
      refuseOther: () => refuseOtherMachine(dir.path, stored, asked),
      checkUpdated: () => checkUpdated(options, stored, async () => void started.push(isReady)),
    });
  const refused = { code: 'conflict', message: /version 0\.2\.0, .* is not through/ };
  await assert.rejects(up(false), refused);
  assert.notEqual(await file.read(own), undefined, 'nobody said so with a command that was refused');
  await assert.rejects(up(true), refused);
  assert.equal(await file.read(own), undefined);
  assert.deepEqual(started, [false, true]);
});
