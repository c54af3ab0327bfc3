/** The host as an instance of a service in discovery, with what it has, uses and is tagged with. */
import type { Registry } from '@flynn/discovery/registry';
import type { HostRecord, OperatorSettings } from '@flynn/scheduler/cell';
import type { Lease } from '@flynn/store/store';
import type { HostUse } from '../api.ts';

const hostService = 'flynn-host';
/** Use is told in such steps: every host that follows the service hears of every change. */
const stepPercent = 5;

export function attributesOfHost(input: {
  record: HostRecord;
  settings: OperatorSettings;
  use: HostUse;
  jobs: number;
}): Record<string, string> {
  const { record, settings, use, jobs } = input;
  const rounded = (percent: number) => String(Math.round(percent / stepPercent) * stepPercent);
  const tags = { ...record.attributes, ...settings.tags };
  return {
    ...Object.fromEntries(Object.entries(tags).map(([name, value]) => [`tag.${name}`, value])),
    'capacity.memory': String(record.capacity.memoryBytes),
    'capacity.cpu': String(record.capacity.cpuMillis),
    'use.jobs': String(jobs),
    'use.memory-percent': rounded((use.memoryUsedBytes / use.memoryBytes) * 100),
    'use.cpu-percent': rounded(use.cpuPercent / use.cores),
    'use.disk-percent': rounded(use.disk.usedPercent),
    state: settings.drain !== undefined ? 'draining' : settings.cordoned || record.cordoned ? 'cordoned' : 'up',
  };
}

export class HostService {
  readonly #registry: Pick<Registry, 'register'>;
  #told: { lease: Lease; attributes: string } | undefined;

  constructor(registry: Pick<Registry, 'register'>) {
    this.#registry = registry;
  }

  /** On the host's own lease, so that both go together. Nothing is written while nothing changes. */
  async announce(record: HostRecord, attributes: Record<string, string>, lease: Lease): Promise<void> {
    const text = JSON.stringify(attributes);
    if (this.#told?.lease === lease && this.#told.attributes === text) return;
    const instance = {
      service: hostService,
      id: record.id,
      address: `${record.address}:${record.apiPort}`,
      attributes,
    };
    await this.#registry.register(instance, { lease });
    this.#told = { lease, attributes: text };
  }
}
