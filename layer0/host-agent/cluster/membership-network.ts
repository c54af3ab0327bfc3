/**
 * Networks of simulated hosts, for tests: each host has an address and ports of its own, whatever this machine's are taken by,
 * which may be a host of a cluster. Where its etcd is down, connections are refused, as by a machine.
 */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { testLabel } from '@flynn/kit/testing-label';
import { docker } from '@flynn/store/etcd-runner';

const parts = 16;
const addressesOfPart = 256 / parts;

export type SimulatedNetwork = AsyncDisposable & {
  readonly addressOf: (index: number) => string;
  /** Makes the host. Resolves with what the engine calls its network. */
  readonly addHost: (index: number) => Promise<string>;
};

/** In a part of 100.100.255.0/24 that no other run has. `image`: of containers that keep a host's network; it has `sleep`. */
export async function createSimulatedNetwork(image: string): Promise<SimulatedNetwork> {
  const name = `flynn-membership-${process.pid}`;
  const first = await createNetwork(name);
  const added: string[] = [];
  // The first address is the network's, the second this machine's.
  const addressOf = (index: number): string => `100.100.255.${first + 1 + index}`;
  return {
    addressOf,
    addHost: async (index) => {
      const host = `${name}-${index}`;
      const place = [`--name=${host}`, `--network=${name}`, `--ip=${addressOf(index)}`];
      await docker('run', '--detach', `--label=${testLabel}`, ...place, '--entrypoint=sleep', image, 'infinity');
      added.push(host);
      return `container:${host}`;
    },
    [Symbol.asyncDispose]: async () => {
      await docker('rm', '--force', ...added);
      await docker('network', 'rm', name);
    },
  };
}

/** Resolves with the last number of its first address. */
async function createNetwork(name: string): Promise<number> {
  for (let tries = 0; ; tries += 1) {
    const first = ((process.pid + tries) % parts) * addressesOfPart;
    const subnet = `100.100.255.${first}/${32 - Math.log2(addressesOfPart)}`;
    try {
      await docker('network', 'create', `--label=${testLabel}`, `--subnet=${subnet}`, name);
      return first;
    } catch (error) {
      const isTaken = messageOf(error).includes('overlaps');
      if (!isTaken || tries === parts) throw new FlynnError('unavailable', messageOf(error), { cause: error });
    }
  }
}
