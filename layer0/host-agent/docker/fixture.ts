/** A Docker engine for integration tests: its own cluster label and network, all removed at the end. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import { testLabels } from '@flynn/kit/testing-label';
import { connectDocker } from './docker.ts';
import type { Engine, FetchBlob, ImageInfo } from '../engine/engine.ts';
import { label } from '../engine/labels.ts';

export const testImage = process.env['FLYNN_TEST_BASE_IMAGE'] ?? 'flynn-test/base:dev';

export type DockerFixture = {
  engine: Engine;
  cluster: string;
  network: { name: string; subnet: string; gateway: string };
  scratchDir: string;
  close(): Promise<void>;
};

const noBlobs: FetchBlob = (digest) => Promise.reject(new FlynnError('not_found', `no blob ${digest}`));

/** Of 100.100.0.0/16 these networks are those of such tests; the last is divided among simulated hosts (membership-network.ts). */
const firstOctet = 210;
const octets = 45;

/** Test files run at the same time, each in a network of its own: of the engine's that nobody else has. */
async function ensureFreeNetwork(engine: Engine, cluster: string): Promise<DockerFixture['network']> {
  const name = `flynn-test-${cluster}`;
  for (let tried = 0; ; tried += 1) {
    const octet = firstOctet + ((process.pid + tried) % octets);
    const network = { name, subnet: `100.100.${octet}.0/24`, gateway: `100.100.${octet}.1` };
    try {
      await engine.ensureNetwork({ ...network, bridge: `flt${cluster.slice(0, 10)}`, labels: testLabels });
      return network;
    } catch (error) {
      if (tried === octets - 1 || !messageOf(error).includes('overlaps')) throw error;
    }
  }
}

export async function openDocker(options: { fetchBlob?: FetchBlob } = {}): Promise<DockerFixture> {
  const cluster = `t${shortId()}`;
  const scratchDir = await mkdtemp(join(tmpdir(), 'flynn-engine-'));
  const engine = connectDocker({
    socketPath: '/var/run/docker.sock',
    cluster,
    fetchBlob: options.fetchBlob ?? noBlobs,
    scratchDir,
  });
  const network = await ensureFreeNetwork(engine, cluster);
  return {
    engine,
    cluster,
    network,
    scratchDir,
    async close() {
      // One after the other, as tests share the engine: it may hang for all of them when many end at once.
      for (const container of await engine.list()) await engine.remove(container.id);
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
