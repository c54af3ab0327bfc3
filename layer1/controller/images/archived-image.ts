/** Which image is in an archive? One that an engine saved, or an OCI image layout; both name the same things. */
import { createHash } from 'node:crypto';
import { digestSchema } from '@flynn/blobstore/api';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import type { Archive, ArchivedFile } from './archive.ts';
import { type ImageConfig, parseImageConfig, parseJsonAs } from './image-config.ts';

export type ArchivedImage = {
  /** As it was called where it comes from, if it was called anything. */
  name: string | undefined;
  configText: string;
  config: ImageConfig;
  /** Lowest first. `diffId` is the digest of the plain tar file. */
  layers: { file: ArchivedFile; diffId: string }[];
};

const savedSchema = z.array(
  z.object({ Config: z.string(), RepoTags: z.array(z.string()).nullish(), Layers: z.array(z.string()) }),
);
const descriptorSchema = z.object({
  digest: digestSchema,
  platform: z.object({ os: z.string(), architecture: z.string() }).nullish(),
  annotations: z.record(z.string(), z.string()).nullish(),
});
type Descriptor = z.output<typeof descriptorSchema>;
const layoutSchema = z.object({ manifests: z.array(descriptorSchema) });
const manifestSchema = z.object({ config: descriptorSchema, layers: z.array(descriptorSchema) });

/** The engine takes no more. */
const maxLayers = 127;
const nameAnnotation = 'org.opencontainers.image.ref.name';
const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };

/** Errors: `invalid`, with what is wrong with the archive. */
export async function readArchivedImage(archive: Archive, arch: string = process.arch): Promise<ArchivedImage> {
  const found =
    archive.find('manifest.json') === undefined
      ? await readLayout(archive, architectures[arch] ?? arch)
      : await readSaved(archive);
  const { diff_ids: diffIds } = found.config.rootfs;
  if (diffIds.length !== found.files.length) {
    throw new FlynnError(
      'invalid',
      `the image's configuration names ${diffIds.length} layers, and the archive ${found.files.length}`,
    );
  }
  if (diffIds.length > maxLayers) {
    throw new FlynnError('invalid', `the image has ${diffIds.length} layers; engines take ${maxLayers}`);
  }
  const layers = diffIds.flatMap((diffId, place) => {
    const file = found.files[place];
    return file === undefined ? [] : [{ file, diffId }];
  });
  return { name: found.name, configText: found.configText, config: found.config, layers };
}

type Found = Omit<ArchivedImage, 'layers'> & { files: ArchivedFile[] };

async function readSaved(archive: Archive): Promise<Found> {
  const images = parseJsonAs(savedSchema, await archive.text('manifest.json'), "the archive's manifest.json");
  const [image, ...others] = images;
  if (image === undefined) throw new FlynnError('invalid', 'there is no image in the archive');
  if (others.length > 0) {
    const names = images.map(({ RepoTags, Config }) => RepoTags?.[0] ?? Config).join(', ');
    throw new FlynnError('invalid', `there are ${images.length} images in the archive (${names}): save one alone`);
  }
  const configText = await archive.text(image.Config);
  return {
    name: image.RepoTags?.[0],
    configText,
    config: parseImageConfig(configText),
    files: image.Layers.map((name) => archive.file(name)),
  };
}

async function readLayout(archive: Archive, architecture: string): Promise<Found> {
  if (archive.find('index.json') === undefined) {
    throw new FlynnError(
      'invalid',
      'this is no archive of an image: neither "docker save" (manifest.json) nor an OCI layout (index.json) wrote it',
    );
  }
  const index = parseJsonAs(layoutSchema, await archive.text('index.json'), "the archive's index.json");
  const { manifest, name } = await findManifest(archive, index.manifests, architecture);
  const configText = await textOf(archive, manifest.config.digest);
  return {
    name,
    configText,
    config: parseImageConfig(configText),
    files: manifest.layers.map(({ digest }) => archive.file(blobName(digest))),
  };
}

/** An index may name others: one for each platform. */
async function findManifest(
  archive: Archive,
  descriptors: readonly Descriptor[],
  architecture: string,
  depth = 0,
): Promise<{ manifest: z.output<typeof manifestSchema>; name: string | undefined }> {
  const fitting = descriptors.filter(
    ({ platform }) => platform == null || (platform.os === 'linux' && platform.architecture === architecture),
  );
  const [first, ...others] = fitting;
  if (first === undefined) {
    const there = descriptors.map(({ platform }) => `${platform?.os}/${platform?.architecture}`).join(', ');
    const has = there === '' ? 'nothing' : there;
    throw new FlynnError('invalid', `the archive has no image for linux/${architecture}, it has ${has}`);
  }
  if (others.length > 0) {
    throw new FlynnError('invalid', `there are ${fitting.length} images in the archive: save one alone`);
  }
  const text = await textOf(archive, first.digest);
  const what = `the manifest ${first.digest}`;
  const either = parseJsonAs(z.union([manifestSchema, layoutSchema]), text, what);
  if ('config' in either) return { manifest: either, name: first.annotations?.[nameAnnotation] };
  if (depth > 2) throw new FlynnError('invalid', `${what} only leads to other manifests`);
  return findManifest(archive, either.manifests, architecture, depth + 1);
}

async function textOf(archive: Archive, digest: string): Promise<string> {
  const text = await archive.text(blobName(digest));
  const actual = `sha256:${createHash('sha256').update(text).digest('hex')}`;
  if (actual === digest) return text;
  throw new FlynnError('invalid', `the archive is damaged: what it calls ${digest} is ${actual}`);
}

function blobName(digest: string): string {
  return `blobs/${digest.replace(':', '/')}`;
}
