/** What a real engine reads for a Dockerfile: no address, no image and no step that is not the app's. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { buffer } from 'node:stream/consumers';
import { buildRepository } from '@flynn/host-agent/engine/labels';
import { hasCode } from '@flynn/kit/errors';
import { pack } from 'tar-stream';
import { type Made, make, of, run, source, withEngine } from './engine-build-fixture.ts';

/** Answers at all of this machine's addresses; steps reach those that are not its loopback's. */
async function withServer(work: (server: { outside: string; local: string; asked: string[] }) => Promise<void>) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    if (request.url === '/moved') response.writeHead(302, { location: '/some/tool' });
    else if (request.url === '/missing') response.writeHead(404);
    else if (request.url?.endsWith('tool') === true)
      response.setHeader('last-modified', 'Tue, 01 Jan 2019 00:00:00 GMT');
    response.end('from there');
  });
  await once(server.listen(0, '0.0.0.0'), 'listening');
  const { port } = server.address() as AddressInfo;
  const addresses = Object.values(networkInterfaces()).flatMap((each = []) => each);
  const mine = addresses.find(({ internal, family }) => !internal && family === 'IPv4')?.address;
  try {
    await work({ outside: `http://${mine}:${port}`, local: `http://127.0.0.1:${port}`, asked });
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test('files of addresses are as the engine would have them, in the order of the others', () =>
  withEngine((fixture) =>
    withServer(async ({ outside, asked }) => {
      const archive = pack();
      archive.entry({ name: 'unpacked' }, 'u');
      archive.entry({ name: 'tool' }, 'of the archive');
      archive.finalize();
      const files = { ...source, 'a.tar': await buffer(archive) };
      const dockerfile = `FROM scratch
ARG HOST
ADD --chmod=755 ${outside}/some/tool run.sh /bin/
ADD a.tar $HOST/some/tool ${outside}/a%20b run.sh /mixed/
ADD ${outside}/some/tool a.tar /last/
ADD --chown=7:8 ${outside}/moved /moved
ADD ${outside}/ /index.html
WORKDIR /work
ADD $HOST/x .
`;
      const made = await make(fixture, dockerfile, { source: files, env: { HOST: outside } });
      const all = of(made);
      assert.deepEqual(Object.fromEntries(Object.entries(all).filter(([, about]) => !about.endsWith('directory'))), {
        'bin/tool': '755 0:0 from there',
        'bin/run.sh': '755 0:0 run',
        'mixed/unpacked': '644 0:0 u',
        'mixed/tool': '600 0:0 from there',
        'mixed/a b': '600 0:0 from there',
        'mixed/run.sh': '644 0:0 run',
        'last/unpacked': '644 0:0 u',
        'last/tool': '644 0:0 of the archive',
        moved: '600 7:8 from there',
        'index.html': '600 0:0 from there',
        'work/x': '600 0:0 from there',
      });
      assert.deepEqual([...made.top], [['work/x', 0]]);
      const once = asked.length;
      const again = await make(fixture, dockerfile, { source: files, env: { HOST: outside }, build: 'again' });
      assert.equal(asked.length, 2 * once, 'each build asks anew');
      assert.match(again.told.filter((line) => line.startsWith(' --->')).at(-2) ?? '', /Using cache/);
    }),
  ));

test('the time of a file is what its server says', () =>
  withEngine((fixture) =>
    withServer(async ({ outside }) => {
      const { top } = await make(fixture, `FROM scratch\nADD ${outside}/moved /x\n`);
      assert.deepEqual([...top], [['x', Date.UTC(2019, 0)]]);
    }),
  ));

test('no line has the engine ask for an address', () =>
  withEngine((fixture) =>
    withServer(async ({ local, outside, asked }) => {
      for (const add of [
        `ADD ${local}/x /x`,
        `ADD $URL /x`,
        `ADD \\${local}/x /x`,
        `ADD ["${local}/x", "/x"]`,
        `ADD ["${local}/x", "/x"] junk`,
        `ADD "${local}/x" run.sh /x/`,
        `ADD --chmod=1 ${local}/x /x`,
      ]) {
        const asking = make(fixture, `FROM scratch\nARG URL\n${add}\n`, { source, env: { URL: `${local}/x` } });
        await assert.rejects(asking, (error) => hasCode(error, 'invalid') || assert.fail(String(error)), add);
        assert.deepEqual(asked, [], add);
      }
      await assert.rejects(
        make(fixture, `FROM scratch\nADD ${outside}/missing /x\n`),
        /returned error: 404[^]*What line 2 of the Dockerfile copies could not be prepared: non-zero code: 22/,
      );
    }),
  ));

test('of an image of another app nothing is read, however the Dockerfile names it', () =>
  withEngine(async (fixture) => {
    const secret = `FROM scratch\nENV MARK=${fixture.cluster}\nCOPY run.sh /secret\n`;
    const { lines } = await make(fixture, secret, { source, cache: 'victim' });
    const id = lines.flatMap((line) => /^Successfully built ([0-9a-f]+)/.exec(line)?.[1] ?? []).at(-1) ?? '';
    assert.match(id, /^[0-9a-f]{12}$/);
    // What the engine takes for the image if it sees it.
    const { stdout } = await run('docker', ['image', 'inspect', '--format={{.Id}}', id]);
    assert.match(stdout, new RegExp(`^sha256:${id}`));
    for (const hostile of [
      `FROM ${id}`,
      `FROM scratch\nCOPY --from=${id} / /x`,
      `FROM scratch\nCOPY --fr\\om=${id} / /x`,
      `FROM scratch\nCOPY --fr"om"=${id} / /x`,
      `FROM scratch\nCOPY --from''=${id} / /x`,
      `FROM scratch\nCOPY --fr\\\nom=${id} / /x`,
      `FROM scratch\nCOPY\v--from=${id} / /x`,
      `FROM scratch\nCOPY --chown=0\u00e0--from=${id} / /x`,
      `FROM scratch AS ${id}\nCOPY --from=${id} / /x`,
      `FROM scratch AS ${id}\nCOPY --from=${id} --chmod=755 / /x`,
      `FROM scratch\nONBUILD COPY --from=${id} / /x`,
      `FROM scratch\nONBU\u0130LD COPY --from=${id} / /x`,
      `FROM scratch\nCOPY --from=${buildRepository(fixture.cluster)}:victim / /x`,
    ]) {
      await assert.rejects(
        make(fixture, `${hostile}\n`, { source, cache: 'hostile' }),
        (error) => hasCode(error, 'invalid') && error.message.startsWith('The Dockerfile cannot be built here: '),
        hostile,
      );
    }
  }));

test('an app finds its own steps done, and nobody else’s', () =>
  withEngine(async (fixture) => {
    const dockerfile = `FROM scratch AS one\nENV MARK=${fixture.cluster}\nCOPY run.sh /x\nFROM one\nCOPY run.sh /y\n`;
    const found = ({ told }: Made): number => told.filter((line) => line === ' ---> Using cache').length;
    assert.equal(found(await make(fixture, dockerfile, { source, cache: 'one' })), 0);
    assert.equal(found(await make(fixture, dockerfile, { source, cache: 'two' })), 0);
    const again = await make(fixture, dockerfile, { source, cache: 'one' });
    assert.equal(found(again), 3);
    assert.deepEqual(
      again.told.filter((line) => line.startsWith('Step')).map((line) => line.replace(/MARK=.*/, 'MARK')),
      [
        'Step 1/5 : FROM scratch AS one',
        'Step 2/5 : ENV MARK',
        'Step 3/5 : COPY run.sh /x',
        'Step 4/5 : FROM one',
        'Step 5/5 : COPY run.sh /y',
      ],
    );
  }));
