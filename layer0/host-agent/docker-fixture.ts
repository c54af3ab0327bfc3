/** A Docker engine for integration tests: its own cluster label and network, all removed at the end. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import { connectDocker } from './docker.ts';
import type { Engine, FetchBlob, ImageInfo } from './engine.ts';
import { label } from './labels.ts';

export const testImage = process.env['FLYNN_TEST_BASE_IMAGE'] ?? 'flynn-test/base:dev';

export type DockerFixture = {
  engine: Engine;
  cluster: string;
  network: { name: string; subnet: string; gateway: string };
  scratchDir: string;
  close(): Promise<void>;
};

const noBlobs: FetchBlob = (digest) => Promise.reject(new FlynnError('not_found', `no blob ${digest}`));

/** `octet` keeps test files that run at the same time apart: 210 to 255. */
export async function openDocker(octet: number, options: { fetchBlob?: FetchBlob } = {}): Promise<DockerFixture> {
  const cluster = `t${shortId()}`;
  const scratchDir = await mkdtemp(join(tmpdir(), 'flynn-engine-'));
  const engine = connectDocker({
    socketPath: '/var/run/docker.sock',
    cluster,
    fetchBlob: options.fetchBlob ?? noBlobs,
    scratchDir,
  });
  const network = { name: `flynn-test-${cluster}`, subnet: `100.100.${octet}.0/24`, gateway: `100.100.${octet}.1` };
  await engine.ensureNetwork({ ...network, bridge: `flt${cluster.slice(0, 10)}`, labels: { 'flynn.test': '1' } });
  return {
    engine,
    cluster,
    network,
    scratchDir,
    async close() {
      await Promise.all((await engine.list()).map((container) => engine.remove(container.id)));
      // The engine removes no stack that another stands on: the tallest go first.
      const height = ({ labels }: ImageInfo) => labels[label.stack]?.length ?? 0;
      const images = (await engine.listImages()).toSorted((a, b) => height(b) - height(a));
      for (const image of images) await engine.removeImage(image.id);
      for (const volume of await engine.listVolumes()) await engine.removeVolume(volume.name);
      await engine.removeNetwork(network.name);
      await rm(scratchDir, { recursive: true, force: true });
    },
  };
}
