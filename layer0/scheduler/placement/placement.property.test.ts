import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Demand } from '../cell.ts';
import { chooseMany } from './choose.ts';
import { HostTable } from './host-table.ts';
import { demandOf, hostOf, policies, randomOf } from './testing.ts';

test('whatever happens, a table knows what is free, and never places beyond it', () => {
  type Model = {
    free: { memory: number; cpu: number };
    capacity: number;
    families: Map<number, Map<string, number>>;
    isOpen: boolean;
  };
  const step = fc.record({
    what: fc.constantFrom('place', 'place', 'place', 'release', 'host', 'remove', 'used'),
    host: fc.nat(7),
    policy: fc.constantFrom(...policies),
    size: fc.integer({ min: 1, max: 600 }),
    cpu: fc.integer({ min: 0, max: 600 }),
    count: fc.integer({ min: 1, max: 12 }),
    port: fc.boolean(),
    family: fc.constantFrom('x', 'y'),
    zone: fc.constantFrom('a', 'b'),
    capacity: fc.constantFrom(40, 1_000, 1_000, 1_000, 2 ** 42 + 1),
    isOpen: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.nat(1_000), fc.integer({ min: 1, max: 3 }), (steps, seed, of) => {
      const table = new HostTable(2);
      table.setHome({ slice: 0, of });
      const random = randomOf(seed);
      const models = new Map<string, Model>();
      const jobs: { id: string; demand: Demand }[] = [];
      const fits = (model: Model, demand: Demand): boolean =>
        model.isOpen &&
        model.free.memory >= demand.memoryBytes &&
        model.free.cpu >= demand.cpuMillis &&
        demand.hostPorts.every((port) =>
          [...(model.families.get(port)?.keys() ?? [])].every((f) => f === demand.family),
        );
      for (const { what, host, policy, size, cpu, count, port, family, zone, isOpen, capacity } of steps) {
        const id = `h${host}`;
        const index = table.indexOf(id);
        const demand = demandOf({ memoryBytes: size, cpuMillis: cpu, hostPorts: port ? [80] : [], family });
        if (what === 'host') {
          table.put(
            hostOf(id, { capacity: { memoryBytes: capacity, cpuMillis: capacity }, attributes: { zone }, isOpen }),
          );
          const known = models.get(id) ?? { free: { memory: 0, cpu: 0 }, capacity: 0, families: new Map(), isOpen };
          const more = capacity - known.capacity;
          const free = { memory: known.free.memory + more, cpu: known.free.cpu + more };
          models.set(id, { ...known, free, capacity, isOpen });
        } else if (what === 'remove') {
          assert.equal(table.remove(id), models.delete(id));
          jobs.splice(0, jobs.length, ...jobs.filter((job) => job.id !== id));
        } else if (what === 'release') {
          const [job] = jobs.splice(0, 1);
          const model = models.get(job?.id ?? '');
          if (job === undefined || model === undefined) continue;
          table.release(table.indexOf(job.id) ?? -1, job.demand);
          model.free.memory += job.demand.memoryBytes;
          model.free.cpu += job.demand.cpuMillis;
          for (const taken of job.demand.hostPorts) {
            const families = model.families.get(taken);
            const left = (families?.get(job.demand.family) ?? 0) - 1;
            if (left > 0) families?.set(job.demand.family, left);
            else families?.delete(job.demand.family);
          }
        } else if (what === 'used') {
          const model = models.get(id);
          if (index === undefined || model === undefined) continue;
          table.setUsed(index, { memoryBytes: size, cpuMillis: cpu });
          models.set(id, {
            ...model,
            free: { memory: model.capacity - size, cpu: model.capacity - cpu },
            families: new Map(),
          });
          jobs.splice(0, jobs.length, ...jobs.filter((job) => job.id !== id));
        } else {
          const shares = chooseMany(table, { policy, demand, spread: ['zone'], random }, count);
          let placed = 0;
          for (const share of shares) {
            const chosen = table.idOf(share.index) ?? '';
            const model = models.get(chosen);
            assert.ok(model !== undefined, 'the host exists');
            for (let job = 0; job < share.count; job++, placed++) {
              assert.ok(fits(model, demand), `${chosen} has room`);
              model.free.memory -= demand.memoryBytes;
              model.free.cpu -= demand.cpuMillis;
              for (const taken of demand.hostPorts) {
                const families = model.families.get(taken) ?? new Map<string, number>();
                model.families.set(taken, families.set(demand.family, (families.get(demand.family) ?? 0) + 1));
              }
              jobs.push({ id: chosen, demand });
            }
            table.claim(share.index, demand, share.count);
          }
          const roomLeft = [...models.values()].some((model) => fits(model, demand));
          assert.ok(placed === count || !roomLeft, 'what has room is placed');
        }
        for (const [known, model] of models) {
          const at = table.indexOf(known) ?? -1;
          assert.equal(table.columns.memoryFree[at], model.free.memory);
          assert.equal(table.columns.cpuFree[at], model.free.cpu);
          assert.equal(table.isOpen(at), model.isOpen);
        }
        assert.equal(table.size, models.size);
      }
    }),
    { numRuns: 300, seed: 1 },
  );
});
