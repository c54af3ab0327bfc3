/** What a registry has of an image that an app runs, with one file more. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Artifact } from '@flynn/controller/model';
import type { TestCluster } from '../test-cluster.ts';

const digestOf = (bytes: Buffer | string): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/** The image an app runs, and another file in it: what a registry has of that. */
export async function imageWith(
  cluster: TestCluster,
  app: string,
  file: string,
  text: string,
): Promise<Map<string, Buffer>> {
  const folder = join(cluster.directory, 'registry');
  await mkdir(join(folder, 'layer', file, '..'), { recursive: true });
  // What the app is comes first in its file, then its configuration, then much that nobody needs here.
  const head = `${cluster.flynnCommand} -a ${app} export - | head -c 262144 | tar -xf - -C ${folder}`;
  await cluster.exec(['sh', '-c', `${head} 2>/dev/null; test -s ${folder}/flynn-app.json`]);
  const readJson = async <T>(name: string): Promise<T> => JSON.parse(await readFile(join(folder, name), 'utf8')) as T;
  const { image } = (await readJson<{ artifact: Artifact }>('flynn-app.json')).artifact;
  assert.ok('config' in image, `${app} is no image`);
  await writeFile(join(folder, 'layer', file), text);
  await cluster.exec(['tar', '-cf', join(folder, 'layer.tar'), '-C', join(folder, 'layer'), '.']);
  const layer = await readFile(join(folder, 'layer.tar'));
  const config = await readJson<{ rootfs: { diff_ids: string[] } }>(`layers/${image.config.digest}`);
  config.rootfs.diff_ids.push(digestOf(layer));
  const configText = Buffer.from(JSON.stringify(config));
  const mediaType = (kind: string): string => `application/vnd.oci.image.${kind}`;
  const manifest = {
    config: { mediaType: mediaType('config.v1+json'), digest: digestOf(configText), size: configText.length },
    layers: [
      ...image.layers.map(({ digest, sizeBytes }) => ({
        mediaType: mediaType('layer.v1.tar+zstd'),
        digest,
        size: sizeBytes,
      })),
      { mediaType: mediaType('layer.v1.tar'), digest: digestOf(layer), size: layer.length },
    ],
  };
  return new Map([
    ['manifests/1.4', Buffer.from(JSON.stringify(manifest))],
    [`blobs/${digestOf(configText)}`, configText],
    [`blobs/${digestOf(layer)}`, layer],
  ]);
}
