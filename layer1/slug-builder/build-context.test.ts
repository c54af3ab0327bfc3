import assert from 'node:assert/strict';
import { test } from 'node:test';
import { text } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import { extract, pack } from 'tar-stream';
import { packContext } from './build-context.ts';

test('what is called as the Dockerfile is that text, whatever it is in an archive', async () => {
  const first = pack();
  first.entry({ name: './deploy/Dockerfile', mode: 0o600 }, 'FROM given');
  first.entry({ name: 'other' }, 'FROM other');
  first.finalize();
  const next = pack();
  next.entry({ name: 'deploy/Dockerfile', type: 'symlink', linkname: '../other' });
  next.finalize();
  const archive = extract();
  const sources = [Readable.from(first), Readable.from(next)];
  packContext(sources, { dockerfile: 'FROM read', path: 'deploy/Dockerfile' }).pipe(archive);
  const found: [name: string, type: string, content: string][] = [];
  for await (const entry of archive) found.push([entry.header.name, entry.header.type ?? '', await text(entry)]);
  assert.deepEqual(found, [
    ['deploy/Dockerfile', 'file', 'FROM read'],
    ['other', 'file', 'FROM other'],
    ['deploy/Dockerfile', 'file', 'FROM read'],
  ]);
});
