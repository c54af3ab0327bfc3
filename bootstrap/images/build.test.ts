import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempDisposable, readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { engineAt } from '../machine/engine.ts';
import { ensureImages } from './build.ts';

/** An engine that pulls what it is asked for, and has no room for any container. */
async function fullEngine(socket: string) {
  const images = new Set<string>();
  const engine = createServer((request, response) => {
    const { method, url = '' } = request;
    const { pathname, searchParams } = new URL(url, 'http://engine');
    const image = /\/images\/([^/]+:[^/]+)(?:\/json)?$/.exec(decodeURIComponent(pathname))?.[1] ?? '';
    request.resume();
    if (pathname.endsWith('/images/create')) {
      images.add(`${searchParams.get('fromImage')}:${searchParams.get('tag')}`);
      response.end('{"status":"Pulling from library/debian"}\n');
    } else if (pathname.endsWith('/containers/create')) {
      response.writeHead(500).end('{"message":"no space left on device"}');
    } else if (method === 'DELETE') {
      response.end(images.delete(image) ? '[]' : '');
    } else {
      response.writeHead(images.has(image) ? 200 : 404).end('{}');
    }
  });
  await once(engine.listen(socket), 'listening');
  return {
    images,
    [Symbol.dispose]() {
      engine.closeAllConnections();
      engine.close();
    },
  };
}

test('what was fetched to build on goes again, also where there was no room to begin', async (t) => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-build-'));
  const temporary = process.env['TMPDIR'];
  process.env['TMPDIR'] = folder.path;
  t.after(() => {
    if (temporary === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = temporary;
  });
  const socket = join(folder.path, 'docker.sock');
  using engine = await fullEngine(socket);
  await assert.rejects(ensureImages({ docker: engineAt(socket), names: ['base'] }), /no space left/);
  assert.deepEqual([...engine.images], []);
  assert.deepEqual(await readdir(folder.path), ['docker.sock']);
});
