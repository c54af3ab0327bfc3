import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configOf, savedFiles } from '@flynn/controller/images/testing';
import { type BuildEvent, buildRoutes } from '@flynn/host-agent/builds/api';
import { hasCode } from '@flynn/kit/errors';
import { layers, limits, openPlace, succeeds } from './image-build-fixture.ts';

const mebibyte = 1024 ** 2;
const lfsPointer = `version https://lfs.example.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 12345\n`;

/** Of a Dockerfile as the engine gets it. */
const unmarked = (dockerfile = ''): string => dockerfile.replace(/\nLABEL flynn\.cache=[0-9a-f]{64}(?=\n|$)/g, '');

const isError = (code: 'invalid' | 'exhausted' | 'timeout', pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);

test('the engine gets the context without what is ignored, and the result is an image with a Procfile’s types', async () => {
  await using place = await openPlace(succeeds);
  const result = await place.build({
    '.dockerignore': 'secret\n*.md\n',
    'app.json': '{}',
    Dockerfile: 'FROM flynn/slug-runner\nARG A\nCOPY . /\n',
    Procfile: 'worker: work\nrelease: migrate\n',
    'lib/code.js': 'code',
    'read.md': 'x',
    'secret/key': 'x',
  });
  assert.equal(result.buildpack, 'dockerfile');
  assert.deepEqual(result.processTypes, { worker: 'work', release: 'migrate' });
  assert.equal(result.image?.hasCommand, true);
  assert.equal(result.layers.length, 2);
  assert.deepEqual(result.meta, { 'git.commit': 'abc' });
  assert.equal((await place.blobs.getName('builds/o1')) === undefined, false);
  const { contextDigest: _context, ...asked } = buildRoutes.build.body.parse(place.asked.body);
  assert.deepEqual(asked, {
    dockerfile: 'Dockerfile',
    bases: [],
    cache: 'c1',
    args: { A: '1' },
    limits: { memoryBytes: limits.memoryBytes, cpuMillis: 100, pids: 100, diskBytes: limits.diskBytes },
  });
  assert.deepEqual(place.asked.ensured, [{ name: 'flynn/slug-runner:77' }]);
  const files = await place.context();
  assert.deepEqual([...files.keys()].sort(), ['.dockerignore', 'Dockerfile', 'Procfile', 'app.json', 'lib/code.js']);
  assert.equal(unmarked(files.get('Dockerfile')), 'FROM here:1\nARG A\nCOPY . /\n');
  assert.match(place.output(), /Step 1\/1 : FROM x/);
  const again = await place.build({ Dockerfile: 'FROM x' });
  assert.deepEqual(again.layers, result.layers);
  assert.match(place.output(), /there already/);
});

test('a Dockerfile of another name and place has all of the source, and what is beside it counts before what is at the top', async () => {
  await using place = await openPlace(succeeds);
  const source = {
    '.dockerignore': 'apps',
    Dockerfile: 'FROM other\nCOPY nothing /\n',
    Procfile: 'worker: of the top',
    'app.json': '{"formation":{"web":{"quantity":3}}}',
    'apps/web/Procfile': 'worker: of web',
    'apps/web/web.Dockerfile': 'FROM flynn/slug-runner\nCOPY . /\n',
    'apps/web/web.Dockerfile.dockerignore': 'apps/api\nweb.Dockerfile\n**/*.Dockerfile\n',
    'apps/api/code.js': 'x',
    'lib/code.js': 'code',
  };
  const result = await place.build(source, {}, {}, 'apps/web/web.Dockerfile');
  assert.deepEqual(result.processTypes, { worker: 'of web' });
  assert.equal(result.appJson?.formation['web'], 3);
  assert.equal(buildRoutes.build.body.parse(place.asked.body).dockerfile, 'apps/web/web.Dockerfile');
  const files = await place.context();
  assert.deepEqual([...files.keys()].sort(), [
    '.dockerignore',
    'Dockerfile',
    'Procfile',
    'app.json',
    'apps/web/Procfile',
    'apps/web/web.Dockerfile',
    'apps/web/web.Dockerfile.dockerignore',
    'lib/code.js',
  ]);
  assert.equal(unmarked(files.get('apps/web/web.Dockerfile')), 'FROM here:1\nCOPY . /\n');
  assert.equal(files.get('Dockerfile'), source.Dockerfile, 'it is a file like any other');
  await assert.rejects(
    place.build(source, {}, {}, 'apps/api/Dockerfile'),
    isError('invalid', /There is no apps\/api\/Dockerfile in the source/),
  );
});

const server = { Entrypoint: ['/docker-entrypoint.sh'], Cmd: ['nginx', '-g', 'daemon off;'] };
const prompt = { Cmd: ['bash'] };
const noWeb = /There is no web: the Procfile names none, and "bash", which the base starts, ends at once/;
const ofBase = /web is what the base starts: "\/docker-entrypoint\.sh nginx -g daemon off;"\./;

type Started = {
  /** Of the image, and so the base's where the Dockerfile has none. */
  config: object;
  dockerfile?: string;
  procfile?: string;
  isMeant: boolean;
  told?: RegExp;
};
const started: Record<string, Started> = {
  'a base’s server is web beside the types of a Procfile': {
    config: server,
    procfile: 'worker: work',
    isMeant: true,
    told: ofBase,
  },
  'a base’s shell is nobody’s where a Procfile names types': {
    config: prompt,
    procfile: 'worker: work',
    isMeant: false,
    told: noWeb,
  },
  'a base’s server gives way to the web of a Procfile': { config: server, procfile: 'web: serve', isMeant: true },
  'a base’s shell gives way to the web of a Procfile': { config: prompt, procfile: 'web: serve', isMeant: false },
  'a base’s command without a Procfile is web': { config: prompt, isMeant: true },
  'a base’s command where a Procfile has only a release line is web': {
    config: prompt,
    procfile: 'release: migrate',
    isMeant: true,
  },
  'the Dockerfile’s own command is web beside a Procfile': {
    config: prompt,
    dockerfile: 'FROM x\nCMD ["bash"]',
    procfile: 'worker: work',
    isMeant: true,
  },
};
for (const [what, { config, dockerfile = 'FROM x', procfile, isMeant, told }] of Object.entries(started)) {
  test(what, async () => {
    const files = { ...savedFiles(layers), 'config.json': configOf(layers, {}, config) };
    await using place = await openPlace(succeeds, files);
    const source: Record<string, string> = { Dockerfile: dockerfile };
    if (procfile !== undefined) source['Procfile'] = procfile;
    const { image } = await place.build(source);
    assert.equal(image?.hasCommand, isMeant);
    for (const line of [noWeb, ofBase]) assert.equal(line.test(place.output()), line === told);
  });
}

test('an upload that breaks is made again, the whole of it', async () => {
  await using place = await openPlace(succeeds);
  place.asked.breaks = 2;
  await place.build({ Dockerfile: 'FROM x', 'lib/code.js': 'code' });
  assert.equal(place.asked.breaks, 0);
  const files = await place.context();
  assert.deepEqual([...files.keys()], ['Dockerfile', 'lib/code.js']);
  assert.equal(unmarked(files.get('Dockerfile')), 'FROM x');
  assert.equal(files.get('lib/code.js'), 'code');
});

test('of an image that is too large nothing is stored, not even the layers that would fit', async () => {
  await using first = await openPlace(succeeds);
  const { layers: stored } = await first.build({ Dockerfile: 'FROM x' });
  const [fits, tooMuch] = stored;
  assert.ok(fits !== undefined && tooMuch !== undefined);
  await using place = await openPlace(succeeds);
  await assert.rejects(
    place.build({ Dockerfile: 'FROM x' }, { slugBytes: fits.sizeBytes + tooMuch.sizeBytes - 1 }),
    isError('exhausted', /larger than its limit/),
  );
  for (const { digest } of stored) await assert.rejects(place.blobs.stat(digest), { code: 'not_found' });
  assert.equal(
    (await place.build({ Dockerfile: 'FROM x' }, { slugBytes: fits.sizeBytes + tooMuch.sizeBytes })).layers.length,
    2,
  );
});

test('an image that no host would take is not laid on the disk whole', async () => {
  await using place = await openPlace(succeeds);
  await assert.rejects(
    place.build({ Dockerfile: 'FROM x' }, { imageBytes: 1024 }),
    isError('exhausted', /has more than 1K unpacked, with that of its base, and no host takes so much/),
  );
});

test('what is kept of the builds before may be damaged: it only saves time', async () => {
  await using place = await openPlace(succeeds);
  const first = await place.build({ Dockerfile: 'FROM x' });
  const { digest } = await place.blobs.put('no layers');
  await place.blobs.putName('layers/a1', digest);
  const again = await place.build({ Dockerfile: 'FROM x' });
  assert.deepEqual(again.layers, first.layers);
  assert.notEqual((await place.blobs.getName('layers/a1'))?.digest, digest);
});

test('an ARG has the variable that every build is given by its name, and the app’s own counts more', async () => {
  await using place = await openPlace(succeeds, undefined, { MIRROR: 'of all', SHARED: 'of all', OTHER: 'of all' });
  await place.build({ Dockerfile: 'FROM x\nARG MIRROR=none\nARG SHARED\nARG NEITHER\n' }, {}, { SHARED: 'of the app' });
  const { args } = buildRoutes.build.body.parse(place.asked.body);
  assert.deepEqual(args, { MIRROR: 'of all', SHARED: 'of the app' });
});

test('a cache that only BuildKit has is left out, and the machine’s kind is given to whoever declares it', async () => {
  await using place = await openPlace(succeeds);
  const dockerfile = 'FROM --platform=$BUILDPLATFORM x\nARG TARGETOS\nRUN --mount=type=cache,target=/c make\n';
  await place.build({ Dockerfile: dockerfile });
  assert.match(place.output(), /line 3: --mount=type=cache,target=\/c is left out: the step begins without that cache/);
  const { args } = buildRoutes.build.body.parse(place.asked.body);
  assert.deepEqual(args, { TARGETOS: 'linux' });
  const built = (await place.context()).get('Dockerfile');
  assert.match(unmarked(built), /^FROM --platform=linux\/\w+ x\nARG TARGETOS\nRUN  make\n$/);
});

test('each stage begins with what is the app’s own, and nobody reads it', async () => {
  const labels = { Labels: { 'flynn.cache': 'x', mine: 'y' } };
  const config = JSON.parse(configOf(layers, {}, { Cmd: ['serve'], ...labels })) as object;
  const history = [
    { created_by: '/bin/sh -c #(nop) ADD file:1 in / ' },
    { created_by: '/bin/sh -c #(nop)  LABEL flynn.cache=x', empty_layer: true },
    { created_by: 'COPY a b' },
  ];
  const files = {
    ...savedFiles(layers),
    'config.json': JSON.stringify({ ...config, history, container_config: labels }),
  };
  await using place = await openPlace(async function* (): AsyncGenerator<BuildEvent> {
    const steps = ((await place.context()).get('Dockerfile') ?? '').split('\n').filter((line) => line !== '');
    for (const [at, step] of steps.entries()) {
      yield { line: `Step ${at + 1}/${steps.length} : ${step}` };
      yield { line: ' ---> Running in 0123456789ab' };
      yield { line: ' ---> 0123456789ab' };
    }
    yield { image: 'flynn-t/build:a1' };
  }, files);
  const result = await place.build({ Dockerfile: 'FROM x AS one\nRUN a\nFROM one\nCOPY b c\n' });
  const dockerfile = (await place.context()).get('Dockerfile') ?? '';
  assert.match(
    dockerfile,
    /^FROM x AS one\n(LABEL flynn\.cache=[0-9a-f]{64})\nRUN a\nFROM one\n\1\nCOPY b c\n$/,
    'it follows from what only the app’s builds have',
  );
  const steps = place.output().match(/(?<=Step )[^\n]*\n[^\n]*/g);
  assert.deepEqual(
    steps?.map((step) => step.replace(/\s+---> Running in \w+$/, '')),
    ['1/4 : FROM x AS one', '2/4 : RUN a', '3/4 : FROM one', '4/4 : COPY b c'],
  );
  assert.doesNotMatch(place.output(), /flynn\.cache/);
  const stored = String(Buffer.concat(await (await place.blobs.get(result.image?.config.digest ?? '')).toArray()));
  assert.doesNotMatch(stored, /flynn\.cache/);
  assert.deepEqual((JSON.parse(stored) as { history: unknown }).history, [history[0], history[2]]);
  assert.match(stored, /"Labels":\{"mine":"y"\}/);
});

test('pointers of Git LFS that get into the image are named', async () => {
  await using place = await openPlace(succeeds);
  await place.build({ Dockerfile: 'FROM x', '.dockerignore': 'docs\n', 'docs/a.png': lfsPointer, 'b.png': lfsPointer });
  assert.match(place.output(), / !     A file is a pointer of Git LFS.*\n !     b\.png\n/);
});

test('what is copied with a mode, or is in the Dockerfile, is prepared in a stage of the image that apps run on', async () => {
  await using place = await openPlace(succeeds);
  const source = {
    Dockerfile: 'FROM x\nARG A\nENV B=b\nCOPY --chmod=755 <<EOF /run\n$A $B\nEOF\nCOPY a /a\n',
    a: 'a',
  };
  await place.build(source);
  assert.deepEqual(place.asked.ensured, [{ name: 'x' }, { name: 'flynn/slug-runner:77' }, { name: 'x' }]);
  const built = (await place.context()).get('Dockerfile');
  assert.match(
    unmarked(built),
    /^FROM here:2 AS flynn-copy-1\nRUN mkdir [^\n]*'1 b\\n'[^\n]*\nRUN umask 0 && chmod -- 00755 [^\n]*\nFROM x\nARG A\nENV B=b\nCOPY --from=flynn-copy-1 \["[^"]*\/EOF","\/run"\]\n\n\nCOPY a \/a\n$/,
  );
  assert.match(place.output(), /line 4: COPY <<EOF --chmod=755 is prepared in a stage of its own/);
  const ofImage = { Dockerfile: source.Dockerfile.replace('$B', '$B $PATH'), a: 'a' };
  await assert.rejects(
    place.build(ofImage),
    isError('invalid', /line 4: COPY: what \$PATH is in <<EOF only the image/),
  );
  place.asked.env = { PATH: '/bin', A: 'of the image' };
  await place.build(ofImage);
  assert.match((await place.context()).get('Dockerfile') ?? '', /'of the image b \/bin\\n'/);
});

test('what is in variables is neither in what people read of a build nor in why it failed', async () => {
  const source = { Dockerfile: 'FROM scratch\nARG DATABASE_URL\nCOPY <<EOF /app/.env\nurl=$DATABASE_URL\nEOF\n' };
  const appEnv = { DATABASE_URL: 'postgres://app:s3cret@db' };
  let isFailing = false;
  await using place = await openPlace(async function* (): AsyncGenerator<BuildEvent> {
    const steps = ((await place.context()).get('Dockerfile') ?? '').split('\n').filter((line) => line !== '');
    for (const [at, step] of steps.entries()) {
      yield { line: `Step ${at + 1}/${steps.length} : ${step}` };
      if (step.startsWith('RUN ') && isFailing) {
        const said = `The command '/bin/sh -c ${step.slice('RUN '.length)}' returned a non-zero code: 2`;
        yield { error: { code: 'invalid', message: said } };
      }
      yield { line: ' ---> 0123456789ab' };
    }
    yield { image: 'flynn-t/build:a1' };
  });
  await place.build(source, {}, appEnv);
  assert.match((await place.context()).get('Dockerfile') ?? '', /s3cret/);
  assert.match(place.output(), /Step 2\/5 : what line 3 copies is prepared\n[^]*Step 5\/5 : COPY <<EOF \/app\/\.env\n/);
  assert.doesNotMatch(place.output(), /s3cret/);
  isFailing = true;
  await assert.rejects(
    place.build(source, {}, appEnv),
    isError('invalid', /^What line 3 of the Dockerfile copies could not be prepared: non-zero code: 2$/),
  );
  assert.doesNotMatch(place.output(), /s3cret/);
});

test('FROM takes an image that was pushed, by its number', async () => {
  await using place = await openPlace(succeeds);
  const number = '0'.repeat(64);
  await assert.rejects(
    place.build({ Dockerfile: `FROM flynn/image:${number}` }),
    isError('invalid', /has no image flynn\/image:000/),
  );
  const first = await place.build({ Dockerfile: 'FROM x' });
  const { digest = '' } = (await place.blobs.getName('builds/o1')) ?? {};
  const named = { Dockerfile: `FROM flynn/image:${digest.slice('sha256:'.length)}` };
  await place.build(named);
  assert.deepEqual(place.asked.ensured, [{ name: 'x' }, { config: first.image?.config, layers: first.layers }]);
  // A record that somebody wrote of layers that are not theirs, and one that is not theirs itself.
  for (const other of [first.layers[1]?.digest ?? '', first.image?.config.digest ?? '', digest]) {
    place.asked.others.clear();
    place.asked.others.add(other);
    await assert.rejects(place.build(named), isError('invalid', /has no image flynn\/image:.* that you brought/));
  }
  assert.equal(place.asked.ensured.length, 2);
});

test('the agent is told what the build begins with that is neither a stage nor the platform’s, and has it before', async () => {
  await using place = await openPlace(succeeds);
  const Dockerfile =
    'ARG BASE=y:1\nFROM --platform=linux/other x AS One\nFROM one\nFROM scratch\nFROM flynn/slug-runner\nFROM $BASE AS y\nFROM y:1';
  await place.build({ Dockerfile });
  const { bases } = buildRoutes.build.body.parse(place.asked.body);
  assert.deepEqual(bases, [{ name: 'x', platform: 'linux/other' }, { name: 'y:1' }]);
  assert.deepEqual(place.asked.ensured, [{ name: 'flynn/slug-runner:77' }, { name: 'y:1' }]);
});

const refused: [what: string, source: Record<string, string>, pattern: RegExp][] = [
  [
    'words only BuildKit knows',
    { Dockerfile: 'FROM x\nRUN --mount=type=ssh make' },
    /only BuildKit knows:\nline 2: RUN/,
  ],
  ['a Procfile that is none', { Dockerfile: 'FROM x', Procfile: 'this is no Procfile' }, /Procfile/],
  ['a Dockerfile of megabytes', { Dockerfile: `FROM x\n${'#'.repeat(2 * mebibyte)}` }, /larger than a megabyte/],
];
for (const [what, source, pattern] of refused) {
  test(`${what} is told before anything is built`, async () => {
    await using place = await openPlace(succeeds);
    await assert.rejects(place.build(source), isError('invalid', pattern));
    assert.equal(place.asked.body, undefined);
  });
}

test('why the engine failed is the build’s failure; of a limit, who can raise it', async () => {
  await using failing = await openPlace(function* () {
    yield { error: { code: 'invalid', message: 'returned a non-zero code: 3' } };
  });
  await assert.rejects(failing.build({ Dockerfile: 'FROM x' }), isError('invalid', /^returned a non-zero code: 3$/));
  await using folded = await openPlace(function* () {
    yield {
      error: { code: 'invalid', message: `The command '/bin/sh -c eval "$(printf %b 'x\\n#' || echo exit 1)"' failed` },
    };
  });
  await assert.rejects(
    folded.build({ Dockerfile: 'FROM x\nRUN --mount=type=cache,target=/c <<EOF\nx\nEOF\n' }),
    isError('invalid', /^The command '\/bin\/sh -c the here-document of line 2' failed$/),
  );
  await using copying = await openPlace(function* () {
    yield { error: { code: 'invalid', message: 'dockerfile parse error line 8: Unknown flag: x' } };
  });
  await assert.rejects(
    copying.build({ Dockerfile: 'FROM x\nCOPY --chmod=755 a b\nCMD --x y\n' }),
    isError('invalid', /^dockerfile parse error line 3: /),
  );
  await using greedy = await openPlace(function* () {
    yield { error: { code: 'exhausted', message: 'the build needed more memory than its limit' } };
  });
  await assert.rejects(greedy.build({ Dockerfile: 'FROM x' }), isError('exhausted', /FLYNN_BUILD_MEMORY=/));
  await using gone = await openPlace(function* () {
    yield { line: 'one' };
  });
  await assert.rejects(gone.build({ Dockerfile: 'FROM x' }), /stopped building without saying why/);
});

test('an image that no registry gives, and a name that a step could not look up, come with what helps', async () => {
  const noHost = 'Get "https://r.example/v2/": dial tcp: lookup r.example on 10.0.0.1:53: no such host';
  await using noImage = await openPlace(function* fails() {
    yield { line: 'Step 1/2 : FROM node:22-alpine' };
    yield { error: { code: 'invalid', message: noHost } };
  });
  await assert.rejects(
    noImage.build({ Dockerfile: 'FROM node:22-alpine\nRUN true\n' }),
    isError('invalid', /no such host\nIt needs no registry: "flynn image push node:22-alpine"/),
  );
  await using noName = await openPlace(function* fails() {
    yield { line: 'Step 3/3 : RUN npm ci' };
    yield { line: 'npm error request to https://r.example/x failed, reason: getaddrinfo ENOTFOUND r.example' };
    yield { error: { code: 'invalid', message: "The command 'npm ci' returned a non-zero code: 1" } };
  });
  await assert.rejects(
    noName.build({ Dockerfile: 'FROM x\nRUN npm ci\n' }),
    isError(
      'invalid',
      /non-zero code: 1\nThe build could not look up r\.example\. .*flynn runner env set https_proxy=/,
    ),
  );
});

test('a build that prints without end, or never ends, is ended with its reason', async () => {
  await using loud = await openPlace(function* () {
    for (;;) yield { line: 'x'.repeat(1_000) };
  });
  await assert.rejects(
    loud.build({ Dockerfile: 'FROM x' }),
    isError('exhausted', /printed more than its limit of 1\.0M/),
  );
  await using silent = await openPlace(async function* ({ signal: going }) {
    yield { line: 'waiting' };
    await new Promise((resolve) => going.addEventListener('abort', resolve));
  });
  await assert.rejects(
    silent.build({ Dockerfile: 'FROM x' }, { timeoutMs: 300 }),
    isError('timeout', /longer than its limit of 0\.3 s/),
  );
});

test('an image that starts nothing, or is too large, is told', async () => {
  const config = JSON.parse(String(savedFiles(layers)['config.json'])) as object;
  const files = { ...savedFiles(layers), 'config.json': JSON.stringify({ ...config, config: {} }) };
  await using nothing = await openPlace(succeeds, files);
  await assert.rejects(nothing.build({ Dockerfile: 'FROM x' }), isError('invalid', /give the Dockerfile a CMD/));
  await using large = await openPlace(succeeds);
  await assert.rejects(
    large.build({ Dockerfile: 'FROM x' }, { slugBytes: 10 }),
    isError('exhausted', /larger than its limit/),
  );
});
