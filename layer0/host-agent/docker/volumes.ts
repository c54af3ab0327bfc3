/** Volumes on Docker. */
import { hasCode, ifFound } from '@flynn/kit/errors';
import type { Engine } from '../engine/engine.ts';
import type { DockerContext } from './containers.ts';
import { engineCall } from './errors.ts';
import { label } from '../engine/labels.ts';

export function dockerVolumes({
  docker,
  cluster,
}: DockerContext): Pick<Engine, 'ensureVolume' | 'listVolumes' | 'hasVolume' | 'removeVolume'> {
  return {
    async ensureVolume(name, { labels, ...options } = {}) {
      const Labels = { ...labels, [label.cluster]: cluster };
      await engineCall(
        `making volume ${name}`,
        (abortSignal) => docker.createVolume({ Name: name, Labels, abortSignal }),
        options,
      );
    },
    async listVolumes(options = {}) {
      const filters = { label: [`${label.cluster}=${cluster}`] };
      const { Volumes } = await engineCall(
        'listing volumes',
        (abortSignal) => {
          // The types ask for text, the library for an object it writes as JSON itself; text it passes as it is.
          const request = { filters: JSON.stringify(filters), abortSignal };
          return docker.listVolumes(request);
        },
        options,
      );
      return (Volumes ?? []).map((volume) => ({
        name: volume.Name,
        labels: volume.Labels ?? {},
        createdAtMs: 'CreatedAt' in volume ? Date.parse(String(volume.CreatedAt)) : 0,
      }));
    },
    async hasVolume(name, options = {}) {
      const inspect = (abortSignal: AbortSignal) => {
        const request = { abortSignal };
        return docker.getVolume(name).inspect(request);
      };
      return (await ifFound(engineCall(`looking for volume ${name}`, inspect, options))) !== undefined;
    },
    async removeVolume(name, options = {}) {
      try {
        await engineCall(
          `removing volume ${name}`,
          (abortSignal) => {
            const request = { abortSignal };
            return docker.getVolume(name).remove(request);
          },
          options,
        );
      } catch (error) {
        if (!hasCode(error, 'not_found')) throw error;
      }
    },
  };
}
