/** What COPY and ADD do with --chmod and here-documents, made by a real engine as hosts' agents have it make images. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { test } from 'node:test';
import { buffer } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { Archive } from '@flynn/controller/images/archive';
import { readArchivedImage } from '@flynn/controller/images/archived-image';
import { type DockerFixture, openDocker } from '@flynn/host-agent/docker/fixture';
import { buildRepository } from '@flynn/host-agent/engine/labels';
import { hasCode } from '@flynn/kit/errors';
import { extract, pack } from 'tar-stream';
import { withoutBuildKit } from './buildkit.ts';
import { basesOfCopies, withCopyStages } from './copy-stages.ts';
import { argsOf, withImages, withPlainBases } from './dockerfile.ts';
import { markOf } from './own-cache.ts';

const run = promisify(execFile);
const { signal } = new AbortController();
const mebibyte = 1024 ** 2;
const limits = { memoryBytes: 256 * mebibyte, cpuMillis: 500, pids: 64, diskBytes: 1024 * mebibyte };
const { FLYNN_TEST_SLUG_RUNNER_IMAGE: runner = 'flynn-test/slug-runner:dev' } = process.env;

type Source = Record<string, string | Buffer | { mode?: number; content?: string; link?: string }>;
type Made = {
  lines: string[];
  told: string[];
  files: Map<string, { about: string; content: string }>;
  top: Map<string, number>;
};

type Asked = { source?: Source; env?: Record<string, string>; cache?: string; app?: string; build?: string };

/** As a push would have it: `env` is the app's. */
async function make(
  { engine }: DockerFixture,
  dockerfile: string,
  { source = {}, env = {}, cache = 'app', app = cache, build = cache }: Asked = {},
): Promise<Made> {
  const understood = withoutBuildKit(dockerfile);
  const args = argsOf(understood.dockerfile, env);
  const plain = withPlainBases(understood.dockerfile, args);
  const { documents } = understood;
  const bases = new Map<string, Record<string, string>>();
  for (const base of basesOfCopies(plain, documents)) bases.set(base, await engine.imageEnv(base));
  const fetching = { build, proxies: {} };
  const staged = withCopyStages(plain, { documents, args, bases, fetching, mark: markOf(app) });
  const context = pack();
  context.entry({ name: 'Dockerfile' }, withImages(staged.dockerfile, new Map([['flynn/slug-runner', runner]])));
  for (const [name, given] of Object.entries(source)) {
    const {
      mode = 0o644,
      content = '',
      link,
    } = typeof given === 'string' || Buffer.isBuffer(given) ? { content: given } : given;
    const header = { name, mode, mtime: new Date(1_000_000_000_000) };
    if (link === undefined) context.entry(header, content);
    else context.entry({ ...header, type: 'symlink', linkname: link });
  }
  context.finalize();
  const lines: string[] = [];
  const told: string[] = [];
  const words = staged.words();
  const onText = (line: string): void => {
    lines.push(line);
    const one = words.told(line);
    if (one !== undefined) told.push(one);
  };
  const asked = { id: cache, cache, context: Readable.from(context), dockerfile: 'Dockerfile', args, limits };
  let name: string;
  try {
    name = await engine.buildImage({ ...asked, onText });
  } catch (error) {
    if (error instanceof Error) error.message = `${told.join('\n')}\n${words.failure(error.message)}`;
    throw error;
  }
  await using folder = await mkdtempDisposable(`${tmpdir()}/flynn-copied-`);
  const image = await readArchivedImage(await Archive.unpack(await engine.exportImages([name]), folder.path, signal));
  const files: Made['files'] = new Map();
  let top: Made['top'] = new Map();
  for (const { file } of image.layers) {
    top = new Map();
    const archive = extract();
    createReadStream(file.path).pipe(archive);
    for await (const entry of archive) {
      const { name: path, mode, uid, gid, mtime, type } = entry.header;
      const place = path.replace(/\/$/, '');
      files.set(place, {
        about: `${((mode ?? 0) & 0o7777).toString(8)} ${uid}:${gid}`,
        content: type === 'file' ? String(await buffer(entry)) : (type ?? ''),
      });
      if (type === 'file') top.set(place, (mtime ?? new Date(0)).getTime());
      entry.resume();
    }
  }
  return { lines, told, files, top };
}

async function withEngine(work: (fixture: DockerFixture) => Promise<void>): Promise<void> {
  const fixture = await openDocker();
  try {
    await work(fixture);
  } finally {
    const { stdout } = await run('docker', [
      'image',
      'ls',
      '--format={{.Repository}}:{{.Tag}}',
      buildRepository(fixture.cluster),
    ]);
    const tags = stdout.split('\n').filter((tag) => tag !== '');
    if (tags.length > 0) await run('docker', ['image', 'rm', ...tags]);
    await fixture.close();
  }
}

const of = ({ files }: Made): Record<string, string> =>
  Object.fromEntries(Array.from(files, ([path, { about, content }]) => [path, `${about} ${content}`]));

const source: Source = {
  'run.sh': 'run',
  'conf/a.json': { mode: 0o600, content: 'a' },
  'conf/.b.json': { mode: 0o755, content: 'b' },
  'conf/c.txt': 'c',
  'conf/deep/d.json': 'd',
  'conf/link.json': { link: 'a.json' },
};

const forms: [what: string, dockerfile: string, files: Record<string, string>, env?: Record<string, string>][] = [
  [
    'a file, to a name and to a folder',
    'FROM scratch\nCOPY --chmod=755 run.sh /run\nCOPY --chmod=0400 --chown=7:8 run.sh /in/\n',
    { run: '755 0:0 run', in: '755 7:8 directory', 'in/run.sh': '400 7:8 run' },
  ],
  [
    'a folder with all in it',
    'FROM scratch\nCOPY --chmod=751 conf /x\n',
    {
      x: '755 0:0 directory',
      'x/a.json': '751 0:0 a',
      'x/.b.json': '751 0:0 b',
      'x/c.txt': '751 0:0 c',
      'x/deep': '751 0:0 directory',
      'x/deep/d.json': '751 0:0 d',
      'x/link.json': '777 0:0 symlink',
    },
  ],
  [
    'a mode in letters, which is made of the one before, and wildcards',
    'FROM scratch\nCOPY --chmod=u=rwX,go=rX conf/*.json /x/\n',
    {
      x: '755 0:0 directory',
      'x/a.json': '644 0:0 a',
      'x/.b.json': '755 0:0 b',
      'x/link.json': '644 0:0 a',
    },
  ],
  [
    'letters that say not whose, and special bits',
    'FROM scratch\nCOPY --chmod=+w conf/a.json /a\nCOPY --chmod=4755 run.sh /s\n',
    { a: '622 0:0 a', s: '4755 0:0 run' },
  ],
  [
    'one wildcard that fits one file',
    'FROM scratch\nCOPY --chmod=500 conf/*.txt /app.txt\n',
    { 'app.txt': '500 0:0 c' },
  ],
  [
    'names in a list, of all of the source',
    'FROM scratch\nCOPY --chmod=700 ["run.sh", "conf/c.txt", "/in it/"]\nCOPY --chmod=640 . /all\n',
    {
      'in it': '755 0:0 directory',
      'in it/run.sh': '700 0:0 run',
      'in it/c.txt': '700 0:0 c',
      'all/run.sh': '640 0:0 run',
      'all/conf/deep': '640 0:0 directory',
    },
  ],
  [
    'from a stage, by its name and by its number, also of stages behind those that are made',
    `FROM ${runner} AS one
RUN mkdir /out && echo -n one > /out/x && ln -s x /out/y
FROM scratch AS two
COPY --from=one --chmod=555 /out/x /x
COPY --from=0 /out/x /plain
FROM scratch
COPY --from=1 --chmod=111 /x /x
COPY --from=1 /x /as-it-was
COPY --chmod=710 --from=0 /out/* /out/
COPY --from=two /plain /plain
`,
    {
      x: '111 0:0 one',
      'as-it-was': '555 0:0 one',
      out: '755 0:0 directory',
      'out/x': '710 0:0 one',
      'out/y': '710 0:0 one',
      plain: '644 0:0 one',
    },
  ],
  [
    'variables in a mode and a name',
    'ARG M=705\nFROM scratch AS a\nENV NAME=run\nFROM a\nARG M\nARG KIND=x\nCOPY --chmod=$M ${NAME}.${KIND:-sh} /$NAME\n',
    { run: '751 0:0 run' },
    { M: '751', KIND: '' },
  ],
  [
    'a here-document',
    'FROM scratch\nCOPY <<EOF /etc/x\none\n# two\n  three \\\\ \'quoted\' "too" `x` $(x) %d\nEOF\nCMD ["/etc/x"]\n',
    { etc: '755 0:0 directory', 'etc/x': `644 0:0 one\n# two\n  three \\ 'quoted' "too" \`x\` $(x) %d\n` },
  ],
  [
    'here-documents with and without variables, and tabs that go',
    'FROM scratch\nARG A=a\nENV B="b ${A}"\nCOPY <<-"Q" <<-U /x/\n\t\tone $A \\$A\n\tQ\n\t\t$A-${B}-\\$A-${NO:-none}-$NO.\n  two\nU\n',
    { 'x/Q': '644 0:0 one $A \\$A\n', 'x/U': '644 0:0 1-b 1-$A-none-.\n  two\n' },
    { A: '1' },
  ],
  [
    'here-documents with files beside them, a mode and an owner',
    "FROM scratch\nADD --chown=9:9 --chmod=+x run.sh <<robots.txt <<'b-c' /x/\nFROM y\nCOPY --chmod=999 z /\nrobots.txt\nb-c \nb-c\n",
    {
      'x/run.sh': '755 9:9 run',
      'x/robots.txt': '755 9:9 FROM y\nCOPY --chmod=999 z /\n',
      'x/b-c': '755 9:9 b-c \n',
    },
  ],
  [
    'what the image sets that a stage begins with, before what ARG says',
    `FROM ${runner}\nARG LANG=x NEW=new\nCOPY <<EOF /made/x\n$LANG $NEW $NOTHING.\nEOF\n`,
    { 'made/x': '644 0:0 C.UTF-8 new .\n' },
  ],
  ['an empty here-document', 'FROM scratch\nCOPY <<EOF /x\nEOF\n', { x: '644 0:0 ' }],
];
for (const [what, dockerfile, files, env] of forms) {
  test(`${what}: what is in the image is what BuildKit would have made of it`, () =>
    withEngine(async (fixture) => {
      const made = of(await make(fixture, dockerfile, { source, ...(env === undefined ? {} : { env }) }));
      assert.deepEqual(
        Object.fromEntries(Object.keys(files).map((path) => [path, made[path]])),
        files,
        JSON.stringify(made),
      );
      assert.deepEqual(
        Object.keys(made).filter((path) => path.includes('copied')),
        [],
      );
    }));
}

test('a here-document of hundreds of kilobytes comes out as it is', () =>
  withEngine(async (fixture) => {
    const content = 'an ä, a \\, a \' and a "\n'.repeat(20_000);
    const { files } = await make(fixture, `FROM scratch\nCOPY <<'EOF' /x\n${content}EOF\n`);
    assert.equal(files.get('x')?.content, content);
  }));

test('what is in variables is not in what people read of a build, in however many pieces the engine says it', () =>
  withEngine(async (fixture) => {
    const content = '$SECRET, '.repeat(4_000);
    const dockerfile = `FROM ${runner}\nARG SECRET\nCOPY --chmod=600 <<EOF /x\n${content}\nEOF\nCOPY $SECRET /y\n`;
    const made = await make(fixture, dockerfile, { source: { 's3cret-1': 'y' }, env: { SECRET: 's3cret-1' } });
    assert.match(made.files.get('x')?.content ?? '', /^s3cret-1, s3cret-1, /);
    assert.match(made.lines.join('\n'), /s3cret/);
    assert.doesNotMatch(made.told.join('\n'), /s3cret/);
    assert.match(made.told.join('\n'), /: what line 3 copies is prepared\n[^]*: COPY --chmod=600 <<EOF \/x\n/);
  }));

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

test('the same content is a step that is there already, and the same file without it; another mode, content or value is not', () =>
  withEngine(async (fixture) => {
    const dockerfile = (mode: string, content: string, before = ''): string =>
      `FROM scratch\nENV MARK=${fixture.cluster}${before}\nARG A\nCOPY --chmod=${mode} run.sh <<EOF /x/\n${content}\nEOF\n`;
    const last = ({ lines }: Made): string => lines.filter((line) => !line.startsWith('Success')).at(-2) ?? '';
    const first = await make(fixture, dockerfile('755', 'x $A'), { source, env: { A: '1' } });
    assert.doesNotMatch(last(first), /Using cache/);
    // Lines before it, and files that it does not copy, may change.
    const moved = `# one\n\n${dockerfile('755', 'x $A')}`;
    const again = await make(fixture, moved, {
      source: { ...source, other: 'other' },
      env: { A: '1' },
      cache: 'again',
      app: 'app',
    });
    assert.match(last(again), /Using cache/);
    const anew = await make(fixture, dockerfile('755', 'x $A', ' OTHER=1'), {
      source,
      env: { A: '1' },
      cache: 'anew',
      app: 'app',
    });
    assert.doesNotMatch(last(anew), /Using cache/);
    assert.deepEqual(anew.top, first.top);
    assert.deepEqual(of(anew), of(first));
    const changed: [string, string, Source, string][] = [
      ['700', 'x $A', source, '1'],
      ['755', 'y $A', source, '1'],
      ['755', 'x $A', { ...source, 'run.sh': 'other' }, '1'],
      ['755', 'x $A', source, '2'],
    ];
    for (const [at, [mode, content, files, A]] of changed.entries()) {
      const made = await make(fixture, dockerfile(mode, content), {
        source: files,
        env: { A },
        cache: `changed${at}`,
        app: 'app',
      });
      assert.doesNotMatch(last(made), /Using cache/, String(at));
      assert.notDeepEqual(of(made), of(first));
    }
  }));

const failures: [what: string, copy: string, files: Source, pattern: RegExp][] = [
  ['a file that is not there', 'COPY --chmod=755 nothing /x', {}, /COPY failed: .*nothing/],
  [
    'an archive for ADD',
    'ADD --chmod=755 *.bin /x/',
    { 'a.bin': gzipSync('x') },
    /\/a\.bin is an archive: ADD unpacks[^]*What line 3 of the Dockerfile copies could not be prepared: non-zero code: 1$/,
  ],
  [
    'a link that leads out of what a wildcard names',
    'COPY --chmod=755 conf/* /x/',
    { 'conf/out': { link: '/etc/passwd' }, 'conf/in': 'x' },
    /\/conf\/out is a link to \/etc\/passwd, which is not in the folder[^]*What line 3 of/,
  ],
  [
    'a link that leads out of the folder of a wildcard, beside which nothing is copied',
    'COPY --chmod=755 app/bin/* /x/',
    { 'app/bin/cli': { link: '../pkg/cli.js' }, 'app/pkg/cli.js': 'x' },
    /\/app\/bin\/cli is a link to \.\.\/pkg\/cli\.js, which is not in the folder that is copied: name[^]*What line 3 of/,
  ],
  [
    'a link to nothing',
    'COPY --chmod=755 conf/* /x/',
    { 'conf/broken': { link: 'nothing' } },
    /\/conf\/broken is a link to nothing, which is not in the folder that is copied: name[^]*What line 3 of/,
  ],
  [
    'a file that is not there and that a variable names',
    'ARG S=s3\nARG T=${S}cret\nCOPY --chmod=755 $T /x/',
    {},
    /^(?![^]*s3cret)[^]*What line 5 of the Dockerfile copies could not be prepared: see that all it names is there\./,
  ],
  [
    'an instruction behind it that is none',
    'COPY --chmod=755 conf/* /x/\nRUM x',
    {},
    /line 4: unknown instruction: RUM/,
  ],
];
for (const [what, copy, files, pattern] of failures) {
  test(`${what} fails the build, with its line`, () =>
    withEngine(async (fixture) => {
      await assert.rejects(
        make(fixture, `FROM scratch\nENV A=${fixture.cluster}\n${copy}\n`, { source: { ...source, ...files } }),
        (error) => hasCode(error, 'invalid') && (pattern.test(error.message) || assert.fail(error.message)),
      );
    }));
}
