/** For tests: images that a real engine makes of Dockerfiles, as hosts' agents have it make them. */
import { execFile } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { buffer } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { Archive } from '@flynn/controller/images/archive';
import { readArchivedImage } from '@flynn/controller/images/archived-image';
import { type DockerFixture, openDocker } from '@flynn/host-agent/docker/fixture';
import { buildRepository } from '@flynn/host-agent/engine/labels';
import { extract, pack } from 'tar-stream';
import { withoutBuildKit } from './buildkit.ts';
import { basesOfCopies, withCopyStages } from './copy-stages.ts';
import { argsOf, basesOf, withImages, withPlainBases } from './dockerfile.ts';
import { markOf } from './own-cache.ts';

export const run = promisify(execFile);
const { signal } = new AbortController();
const mebibyte = 1024 ** 2;
const limits = { memoryBytes: 256 * mebibyte, cpuMillis: 500, pids: 64, diskBytes: 1024 * mebibyte };
export const { FLYNN_TEST_SLUG_RUNNER_IMAGE: runner = 'flynn-test/slug-runner:dev' } = process.env;

export type Source = Record<string, string | Buffer | { mode?: number; content?: string; link?: string }>;
export type Made = {
  lines: string[];
  told: string[];
  files: Map<string, { about: string; content: string }>;
  top: Map<string, number>;
};

type Asked = { source?: Source; env?: Record<string, string>; cache?: string; app?: string; build?: string };

/** As a push would have it: `env` is the app's. */
export async function make(
  { engine, cluster }: DockerFixture,
  dockerfile: string,
  { source = {}, env = {}, cache = 'app', app = cache, build = cache }: Asked = {},
): Promise<Made> {
  const understood = withoutBuildKit(dockerfile);
  const args = argsOf(understood.dockerfile, env);
  const plain = withPlainBases(understood.dockerfile, args);
  const { documents } = understood;
  const envs = new Map<string, Record<string, string>>();
  for (const base of basesOfCopies(plain, documents)) envs.set(base, await engine.imageEnv(base));
  const fetching = { build, proxies: {} };
  // A test that ends has the engine forget its steps: of another one's that it took for done nothing may be among them.
  const mark = markOf(`${cluster} ${app}`);
  const staged = withCopyStages(plain, { documents, args, bases: envs, fetching, mark });
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
  const bases = basesOf(staged.dockerfile).filter(({ name }) => name !== 'flynn/slug-runner');
  const asked = { id: cache, cache, context: Readable.from(context), dockerfile: 'Dockerfile', bases, args, limits };
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

export async function withEngine(work: (fixture: DockerFixture) => Promise<void>): Promise<void> {
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

export const of = ({ files }: Made): Record<string, string> =>
  Object.fromEntries(Array.from(files, ([path, { about, content }]) => [path, `${about} ${content}`]));

export const source: Source = {
  'run.sh': 'run',
  'conf/a.json': { mode: 0o600, content: 'a' },
  'conf/.b.json': { mode: 0o755, content: 'b' },
  'conf/c.txt': 'c',
  'conf/deep/d.json': 'd',
  'conf/link.json': { link: 'a.json' },
};
