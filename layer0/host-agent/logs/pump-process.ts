/** A log pump in a process of its own, for tests that kill it: `node pump-process.ts CLUSTER DIR`. Lines go to DIR/lines. */
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { connectDocker } from '../docker/docker.ts';
import { openPump } from './pump-fixture.ts';

const [cluster = '', dir = ''] = process.argv.slice(2);
const engine = connectDocker({
  socketPath: '/var/run/docker.sock',
  cluster,
  fetchBlob: (digest) => Promise.reject(new FlynnError('not_found', `no blob ${digest}`)),
  scratchDir: dir,
});
// One that was killed may have left half a line: a write to a file ends at a page's end where the process is killed.
appendFileSync(join(dir, 'lines'), '\n');
await openPump(engine, dir, (line) => appendFileSync(join(dir, 'lines'), `${JSON.stringify(line)}\n`));
process.stdout.write('running\n');
