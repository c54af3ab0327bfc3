/** The platform's images on this machine: each built once for what it is made of, parents before children. */
import { copyFile, mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { label } from '@flynn/host-agent/engine/labels';
import { FlynnError } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import { withDeadline } from '@flynn/kit/retry';
import type Docker from 'dockerode';
import { engineAt, within } from '../machine/engine.ts';
import { archiveOf } from './archive.ts';
import type { Stamp } from './bundle.ts';
import { debianImage, hasImage } from './debian.ts';
import { type Prepared, type TarEntry, nodeId, prepareFile } from './ingredients.ts';
import { type Machine, readMachine } from './machine.ts';
import { type ImageName, type ImageRecipe, debianSuite, imageNames, recipes } from './recipes.ts';
import { tagOf } from './tag.ts';

/** Two at once: downloading one image's packages while another's are unpacked; more fight for the disk. */
const concurrency = 2;
const buildMs = 900_000;
/** What the engine does for one on the way: its disk may be slow. */
const stepMs = 120_000;

/** Of the containers images are made in. */
export const buildContainerPrefix = 'flynn-build-';

export type ImagesOptions = {
  docker?: Docker;
  names?: readonly ImageName[];
  /** What is being done, for people. */
  report?: (line: string) => void;
  stamp?: Stamp;
};

/** Name → tag of the named images and their parents. Fast when nothing changed. */
export async function ensureImages(options: ImagesOptions = {}): Promise<Map<ImageName, string>> {
  const docker = options.docker ?? engineAt();
  const report = options.report ?? (() => {});
  const machine = await readMachine(debianSuite, process.env);
  const limit = limiter(concurrency);
  const images = new Map<ImageName, Promise<string>>();

  const ensure = (name: ImageName): Promise<string> => {
    const begun = images.get(name);
    if (begun !== undefined) return begun;
    const image = (async () => {
      const recipe = recipes[name];
      const [parent, ...files] = await Promise.all([
        recipe.parent === undefined ? undefined : ensure(recipe.parent),
        ...(recipe.files ?? []).map((file) => prepareFile(file, machine, options.stamp)),
      ]);
      const tag = tagOf(
        name,
        recipe,
        files.flatMap((file) => file.ingredients),
        parent,
      );
      if (await hasImage(docker, tag)) return tag;
      return limit(async () => {
        report(`building ${name}`);
        const startedAt = performance.now();
        await build({ docker, machine, report }, { recipe, files, parent, tag });
        report(`built ${name} in ${((performance.now() - startedAt) / 1_000).toFixed(0)} s`);
        return tag;
      });
    })();
    images.set(name, image);
    return image;
  };

  const results = await Promise.allSettled((options.names ?? imageNames).map(ensure));
  const failure = results.find((result) => result.status === 'rejected');
  if (failure !== undefined) throw failure.reason;
  const tags = new Map<ImageName, string>();
  for (const [name, tag] of images) tags.set(name, await tag);
  return tags;
}

type BuildContext = { docker: Docker; machine: Machine; report: (line: string) => void };
type Build = { recipe: ImageRecipe; files: readonly Prepared[]; parent: string | undefined; tag: string };

async function build(context: BuildContext, { parent, ...rest }: Build): Promise<void> {
  if (parent !== undefined) return await buildOn(parent, context, rest);
  const { docker } = context;
  const debian = await debianImage(docker, { ...context, suite: debianSuite, packages: rest.recipe.packages ?? [] });
  try {
    await buildOn(debian.ref, context, rest);
  } finally {
    // Only its name goes: the image built on it keeps what it is made of.
    if (debian.source !== 'present') {
      await within(stepMs, (abortSignal) => docker.getImage(debian.ref).remove({ abortSignal }));
    }
  }
}

async function buildOn(
  parent: string,
  { docker, machine }: BuildContext,
  { recipe, files, tag }: Omit<Build, 'parent'>,
): Promise<void> {
  const packages = recipe.packages ?? [];
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-image-'));
  const wanted = {
    name: `${buildContainerPrefix}${tag.replace(/\W+/g, '-')}-${shortId()}`,
    Image: parent,
    Entrypoint: [],
    Cmd: installCommand(packages, recipe.setup),
    // The machine's own network, names and proxies, whatever they are.
    HostConfig: { NetworkMode: 'host', Binds: [`${folder.path}:/run/flynn-build:ro`] },
  };
  const container = await within(stepMs, (abortSignal) => docker.createContainer({ ...wanted, abortSignal }));
  const put = (contents: readonly TarEntry[]) =>
    within(stepMs, (abortSignal) => container.putArchive(archiveOf(contents), { path: '/', abortSignal }));
  try {
    const entries = (await Promise.all(files.map((file) => file.entries()))).flat();
    if (entries.length > 0) await put(entries);
    if (packages.length > 0) {
      await writeMachine(folder.path, machine);
      await within(stepMs, (abortSignal) => container.start({ abortSignal }));
      const { StatusCode: code }: { StatusCode: number } = await container.wait({ abortSignal: withDeadline(buildMs) });
      if (code !== 0)
        throw new FlynnError(
          'internal',
          `${tag}: installing ${packages.join(' ')} failed:\n${await lastLines(container)}`,
        );
      // Debian's packages may have written over what the recipe puts in their place.
      if (entries.length > 0) await put(entries);
    }
    const [repo, version] = tag.split(':');
    await container.commit({
      repo,
      tag: version,
      changes: await labelledChanges(recipe),
      abortSignal: withDeadline(buildMs),
    });
  } finally {
    await within(stepMs, (abortSignal) => container.remove({ force: true, v: true, abortSignal }));
  }
}

/** How the machine reaches Debian, for apt in the container; on a mount, so none of it is left in the image. */
async function writeMachine(folder: string, machine: Machine): Promise<void> {
  const options = [...machine.aptOptions];
  if (machine.aptSources.length > 0) {
    options.push('Dir::Etc::sourcelist "/run/flynn-build/sources.list";', 'Dir::Etc::sourceparts "-";');
    await writeFile(join(folder, 'sources.list'), `${machine.aptSources.join('\n')}\n`);
  }
  if (machine.certificatesFile !== undefined) {
    await copyFile(machine.certificatesFile, join(folder, 'certificates.crt'));
    options.push('Acquire::https::CaInfo "/run/flynn-build/certificates.crt";');
  }
  await writeFile(join(folder, 'apt.conf'), `${options.join('\n')}\n`);
  await writeFile(join(folder, basename(variablesFile)), variablesText(machine));
}

const variablesFile = '/run/flynn-build/variables';

/** Lines of a shell. Proxies have passwords. */
export function variablesText({ proxies }: Pick<Machine, 'proxies'>): string {
  const variables = { APT_CONFIG: '/run/flynn-build/apt.conf', DEBIAN_FRONTEND: 'noninteractive', ...proxies };
  return Object.entries(variables)
    .map(([name, value]) => `export ${name}='${value.replaceAll("'", `'\\''`)}'\n`)
    .join('');
}

const installScript = `set -e
. ${variablesFile}
if ! dpkg --status "$@" >/dev/null 2>&1; then
  apt-get -q update
  apt-get -qy install --no-install-recommends "$@"
  rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/log/*.log /var/log/apt
fi`;

/** Of the machine it says nothing: it stays in the image, in its history. */
export function installCommand(packages: readonly string[], setup: string | undefined): string[] {
  return ['sh', '-c', `${installScript}\n${setup ?? ''}`, 'install', ...packages];
}

async function labelledChanges(recipe: ImageRecipe): Promise<string> {
  const changes = changesOf(recipe);
  return recipe.isNodeShared === true ? `${changes}\nLABEL ${label.node}=${await nodeId()}` : changes;
}

/** Dockerfile instructions that make the container's file system an image. */
export function changesOf(recipe: ImageRecipe): string {
  return [
    'LABEL flynn.image=1',
    `ENTRYPOINT ${JSON.stringify(recipe.entrypoint ?? [])}`,
    `CMD ${JSON.stringify(recipe.command)}`,
    `WORKDIR ${recipe.workingDirectory ?? '/'}`,
    ...Object.entries(recipe.env ?? {}).map(([name, value]) => `ENV ${name}=${JSON.stringify(value)}`),
  ].join('\n');
}

async function lastLines(container: Docker.Container): Promise<string> {
  const request = { stdout: true, stderr: true, tail: 15 };
  const output: Buffer = await within(stepMs, (abortSignal) => container.logs({ ...request, abortSignal }));
  // The engine puts 8 bytes before each piece: the stream, three zeros, and the piece's length.
  let text = '';
  for (let offset = 0; offset + 8 <= output.length;) {
    const end = offset + 8 + output.readUInt32BE(offset + 4);
    text += output.toString('utf8', offset + 8, end);
    offset = end;
  }
  return text;
}

function limiter(slots: number): <T>(task: () => Promise<T>) => Promise<T> {
  let free = slots;
  const waiting: (() => void)[] = [];
  return async (task) => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await task();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  };
}
