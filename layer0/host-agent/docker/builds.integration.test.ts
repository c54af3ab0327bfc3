/** Builds on a real engine: what they make, what they are held to, and that a build that fails leaves nothing. */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import Docker from 'dockerode';
import { pack } from 'tar-stream';
import { isStatus } from './errors.ts';
import { type DockerFixture, openDocker, testImage } from './fixture.ts';
import type { ImageBuild } from '../engine/engine.ts';
import { buildNetworkPrefix, buildRepository, label } from '../engine/labels.ts';

const docker = new Docker({ socketPath: '/var/run/docker.sock' });
const mebibyte = 1024 ** 2;
const limits = { memoryBytes: 128 * mebibyte, cpuMillis: 500, pids: 64, diskBytes: 1024 * mebibyte };

type Told = { lines: string[] };

function buildOf(
  dockerfile: string,
  more: Partial<ImageBuild> & { files?: Record<string, string> } = {},
): ImageBuild & Told {
  const context = pack();
  const { files = {}, ...rest } = more;
  for (const [name, content] of Object.entries({ Dockerfile: `FROM ${testImage}\n${dockerfile}`, ...files })) {
    context.entry({ name, mtime: new Date(0) }, content);
  }
  context.finalize();
  const lines: string[] = [];
  const onText = (line: string): void => void lines.push(line);
  return {
    id: 'b1',
    cache: 'app',
    context: Readable.from(context),
    dockerfile: 'Dockerfile',
    bases: [],
    args: {},
    limits,
    onText,
    lines,
    ...rest,
  };
}

/** The images and containers there are, to be the same afterwards. */
async function everything(): Promise<{ images: Set<string>; containers: Set<string> }> {
  const [images, containers] = await Promise.all([
    docker.listImages({ all: true }),
    docker.listContainers({ all: true }),
  ]);
  return { images: new Set(images.map(({ Id }) => Id)), containers: new Set(containers.map(({ Id }) => Id)) };
}

/** Other tests may run at the same time: what counts is what has our marks. */
async function assertNothingLeft(fixture: DockerFixture, mark: string): Promise<void> {
  const networks = await docker.listNetworks({
    filters: JSON.stringify({ name: [buildNetworkPrefix(fixture.cluster)] }),
  });
  assert.deepEqual(
    networks.map(({ Name }) => Name),
    [],
  );
  const { images, containers } = await everything();
  for (const id of images) {
    const image = await unlessGone(docker.getImage(id).inspect());
    assert.ok(!(image?.Config.Env ?? []).includes(`MARK=${mark}`), `image ${id} is left`);
  }
  for (const id of containers) {
    const container = await unlessGone(docker.getContainer(id).inspect());
    assert.ok(!(container?.Config.Env ?? []).includes(`MARK=${mark}`), `container ${id} is left`);
  }
}

/** Others use this engine, too. */
async function unlessGone<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
}

async function withDocker(work: (fixture: DockerFixture) => Promise<void>): Promise<void> {
  const fixture = await openDocker();
  try {
    await work(fixture);
  } finally {
    const reference = [`${buildRepository(fixture.cluster)}:*`];
    for (const { RepoTags } of await docker.listImages({ filters: { reference } })) {
      for (const tag of RepoTags ?? []) await docker.getImage(tag).remove();
    }
    await fixture.close();
  }
}

test('a build answers an image, the next one of the same cache finds its steps, and what is old goes', () =>
  withDocker(async ({ engine, cluster }) => {
    const dockerfile = (content: string): string =>
      `ENV MARK=${cluster}\nARG GREETING\nRUN echo "$GREETING" > /greeting\nFROM ${testImage}\nENV MARK=${cluster}\nCOPY --from=0 /greeting /g\nCOPY ${content} /content\n`;
    const files = { one: 'one', two: 'two' };
    const first = buildOf(dockerfile('one'), { args: { GREETING: 'hi there' }, files });
    const name = await engine.buildImage(first);
    assert.equal(name, `${buildRepository(cluster)}:app`);
    const ran = await engine.create({
      name: `${cluster}-ran`,
      labels: {},
      imageRef: name,
      hostname: 'ran',
      command: ['cat', '/g'],
      env: {},
      network: { type: 'host' },
      volumes: [],
      tty: false,
      stdin: false,
      limits: {},
    });
    await engine.start(ran);
    const said = await Array.fromAsync(engine.logs(ran, { follow: true }));
    assert.deepEqual(
      said.map(({ message }) => message),
      ['hi there'],
    );
    await engine.remove(ran);
    const before = await docker.getImage(name).inspect();
    const next = buildOf(dockerfile('two'), { args: { GREETING: 'hi there' }, files });
    await engine.buildImage(next);
    assert.ok(next.lines.includes(' ---> Using cache'), next.lines.join('\n'));
    await assert.rejects(docker.getImage(before.Id).inspect(), /no such image/i);
    assert.deepEqual(await engine.list(), []);
  }));

test('a step that says it is a job of ours is not believed', () =>
  withDocker(async (fixture) => {
    const { engine, cluster } = fixture;
    const ending = new AbortController();
    const build = buildOf(
      `ENV MARK=${cluster}\nLABEL ${label.cluster}=${cluster} ${label.job}=j\nRUN echo running; sleep 600\n`,
    );
    const building = engine.buildImage(build, { signal: ending.signal });
    await waitFor(() => build.lines.includes('running'), { what: 'the step to run', deadlineMs: 60_000 });
    assert.deepEqual(await engine.list(), []);
    assert.equal((await engine.states()).size, 0);
    ending.abort();
    await assert.rejects(building);
    await assertNothingLeft(fixture, cluster);
  }));

const failures: [
  what: string,
  dockerfile: string,
  code: 'invalid' | 'exhausted',
  pattern: RegExp,
  more?: Partial<ImageBuild>,
][] = [
  ['a step that fails', 'RUN echo before; exit 7', 'invalid', /non-zero code: 7/],
  ['an unknown instruction', 'RUM true', 'invalid', /unknown instruction: RUM/i],
  ['a file that is not there', 'COPY nothing /', 'invalid', /nothing/],
  [
    'memory without end',
    `RUN perl -e '$x .= "x" x 1000000 while 1'`,
    'exhausted',
    /more memory than its limit of 128 MB/,
  ],
  [
    'too many processes',
    `RUN perl -e 'while (1) { select(undef, undef, undef, 0.01); my $p = fork; die "no more: $!\\n" unless defined $p; sleep 60 unless $p }'`,
    'invalid',
    /non-zero code/,
  ],
  [
    'a disk that fills',
    'RUN dd if=/dev/zero of=/big bs=1M count=100; sleep 600',
    'exhausted',
    /wrote \d+ MB to the disk; the limit is 50 MB/,
    { limits: { ...limits, diskBytes: 50 * mebibyte } },
  ],
];

for (const [what, dockerfile, code, pattern, more] of failures) {
  test(`a build with ${what} says so and leaves nothing`, () =>
    withDocker(async (fixture) => {
      const { engine, cluster } = fixture;
      const build = buildOf(`ENV MARK=${cluster}\nRUN echo ${cluster} > /mark\n${dockerfile}\n`, more);
      await assert.rejects(engine.buildImage(build), (error) => hasCode(error, code) && pattern.test(error.message));
      if (what.includes('processes')) assert.match(build.lines.join('\n'), /no more: /);
      await assertNothingLeft(fixture, cluster);
    }));
}

test('builds at the same time are apart', () =>
  withDocker(async (fixture) => {
    const { engine, cluster } = fixture;
    const builds = ['one', 'two'].map((id) =>
      buildOf(`ENV MARK=${cluster}\nRUN echo ${id} > /id\n`, { id, cache: id }),
    );
    const names = await Promise.all(builds.map((build) => engine.buildImage(build)));
    assert.deepEqual(names, [`${buildRepository(cluster)}:one`, `${buildRepository(cluster)}:two`]);
    const ids = await Promise.all(names.map(async (name) => (await docker.getImage(name).inspect()).Id));
    assert.notEqual(ids[0], ids[1]);
  }));

test('what a base image wants done beside is not done', () =>
  withDocker(async (fixture) => {
    const { engine, cluster } = fixture;
    // It stays, and is nobody else's: images without a mark are those of all who build the same.
    const base = await engine.buildImage(
      buildOf(`ENV BASE_OF=${cluster}\nONBUILD RUN echo done beside\n`, { cache: 'base' }),
    );
    const files = { Dockerfile: `FROM ${base}\nENV MARK=${cluster}\n` };
    const refused = (error: unknown): boolean => hasCode(error, 'invalid') && /ONBUILD/.test(error.message);
    const build = buildOf('', { files, bases: [{ name: testImage }, { name: base }] });
    await assert.rejects(engine.buildImage(build), refused);
    assert.deepEqual(build.lines, [], 'the engine has not begun');
    // Put under the name since it was looked at.
    const later = buildOf('', { files });
    await assert.rejects(engine.buildImage(later), refused);
    assert.ok(!later.lines.includes('done beside'));
    await assertNothingLeft(fixture, cluster);
  }));

test('what an agent did not live to clear up goes when the next one starts', () =>
  withDocker(async (fixture) => {
    const { engine, cluster } = fixture;
    const Name = `${buildNetworkPrefix(cluster)}gone`;
    await docker.createNetwork({ Name, Labels: { [label.cluster]: cluster, [label.build]: Name } });
    const step = await docker.createContainer({
      Image: testImage,
      Cmd: ['sleep', '600'],
      Env: [`MARK=${cluster}`],
      HostConfig: { NetworkMode: Name },
    });
    await step.start();
    await engine.removeBuildsLeft();
    await assertNothingLeft(fixture, cluster);
  }));

test('what is left goes while another build goes on', () =>
  withDocker(async ({ engine, cluster }) => {
    const build = buildOf(`ENV MARK=${cluster}\nRUN echo running; sleep 5\nRUN echo done`);
    const built = engine.buildImage(build);
    await waitFor(() => build.lines.includes('running'), { what: 'the step to run', deadlineMs: 60_000 });
    await engine.removeBuildsLeft();
    assert.match(await built, /:app$/);
  }));
