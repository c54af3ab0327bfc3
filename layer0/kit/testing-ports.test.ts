import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { hasCode } from './errors.ts';
import { freePort, freePorts } from './testing-ports.ts';

/** Says which it was given, and is there until it is ended. */
const other = `
  import { freePort } from ${JSON.stringify(new URL('testing-ports.ts', import.meta.url).href)};
  console.log(await freePort());
  setInterval(() => {}, 1_000);
`;

test('a port that was given is given to no other test, of this process or of another', async (t) => {
  const child = spawn(process.execPath, ['--input-type=module', '-e', other], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  const [told] = (await once(child.stdout, 'data')) as [Buffer];
  const given = [Number(told), await freePort()];
  const chosen = [...given];
  const next = await freePort(() => chosen.shift() ?? randomInt(12_000, 32_000));
  assert.deepEqual(chosen, [], 'both were tried');
  assert.ok(!given.includes(next));
});

test('a port on which somebody listens, on whichever address, is no free one', async (t) => {
  const server = createServer().listen(0, '127.0.0.2');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await assert.rejects(
    freePort(() => port),
    (error) => hasCode(error, 'exhausted'),
  );
});

test('ports that are asked for together differ', async () => {
  assert.equal(new Set(await freePorts(50)).size, 50);
});
