/** The host's bridge on Docker. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { Mutex } from '@flynn/kit/queue';
import { z } from 'zod';
import type { CallOptions, Engine } from '../engine/engine.ts';
import type { DockerContext } from './containers.ts';
import { engineCall } from './errors.ts';
import { label } from '../engine/labels.ts';

/**
 * From 29 on the engine can keep its rules in nftables of its own, where no rule of ours comes before its DROP. There it is
 * told to neither filter nor masquerade: network/ruleset.ts does both. With iptables network/iptables.ts gets along.
 */
const withoutFilters = {
  'com.docker.network.bridge.gateway_mode_ipv4': 'nat-unprotected',
  'com.docker.network.bridge.enable_ip_masquerade': 'false',
};
const firewallSchema = z.object({ FirewallBackend: z.object({ Driver: z.string() }) });

export function dockerNetworks({
  docker,
  cluster,
}: DockerContext): Pick<Engine, 'ensureNetwork' | 'removeNetwork' | 'checkLocks'> {
  const making = new Mutex();

  async function subnetOf(name: string, options: CallOptions): Promise<string | undefined> {
    try {
      const info = await engineCall(`looking for network ${name}`, () => docker.getNetwork(name).inspect(), options);
      return info.IPAM?.Config?.[0]?.Subnet ?? 'none';
    } catch (error) {
      if (hasCode(error, 'not_found')) return undefined;
      throw error;
    }
  }

  async function hasOwnTables(options: CallOptions): Promise<boolean> {
    const info: unknown = await engineCall('asking the engine about itself', () => docker.info(), options);
    return firewallSchema.safeParse(info).data?.FirewallBackend.Driver.startsWith('nftables') === true;
  }

  return {
    async checkLocks(options) {
      // Networks are listed under the locks that a start, a stop and a removal want; which of them are told does not matter.
      const filters = JSON.stringify({ label: [`${label.cluster}=${cluster}`] });
      await engineCall(
        'looking whether the engine hangs',
        (abortSignal) => {
          const request = { filters, abortSignal };
          return docker.listNetworks(request);
        },
        options,
      );
    },
    ensureNetwork: (network, options = {}) =>
      making.run(async () => {
        const found = await subnetOf(network.name, options);
        if (found === network.subnet) return;
        if (found !== undefined) {
          const message = `the network ${network.name} has subnet ${found}, wanted is ${network.subnet}: remove it (docker network rm ${network.name}) or configure its subnet`;
          throw new FlynnError('conflict', message);
        }
        const filtering = (await hasOwnTables(options)) ? withoutFilters : {};
        await engineCall(
          `making network ${network.name}`,
          (abortSignal) =>
            docker.createNetwork({
              Name: network.name,
              Driver: 'bridge',
              CheckDuplicate: true,
              // Rules of ours judge IPv4 alone, and an engine may be told to give each new network the other as well.
              EnableIPv6: false,
              IPAM: { Driver: 'default', Config: [{ Subnet: network.subnet, Gateway: network.gateway }] },
              Options: {
                'com.docker.network.bridge.name': network.bridge,
                ...(network.mtu === undefined ? {} : { 'com.docker.network.driver.mtu': String(network.mtu) }),
                ...filtering,
              },
              Labels: { ...network.labels, [label.cluster]: cluster },
              abortSignal,
            }),
          options,
        );
      }),
    async removeNetwork(name, options = {}) {
      try {
        await engineCall(`removing network ${name}`, () => docker.getNetwork(name).remove(), options);
      } catch (error) {
        if (!hasCode(error, 'not_found')) throw error;
      }
    },
  };
}
