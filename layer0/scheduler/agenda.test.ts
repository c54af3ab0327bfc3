import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Agenda } from './agenda.ts';
import { cellKeys } from './cell.ts';
import { makeEvaluation } from './evaluations.ts';
import type { Cause } from './evaluations.ts';
import { Ledger } from './ledger.ts';
import { HostTable } from './placement/host-table.ts';
import { cellOf, workloadOf } from './testing.ts';

test('evaluations are carried out in the turn of their workloads, whatever priority whoever wrote them gave them', () => {
  const priorities = { low: 10, app: 50, system: 80 };
  let ids = 0;
  const newId = () => `i${(ids += 1)}`;
  const asked = (workloadId: string, cause: Cause, at: number) => makeEvaluation(workloadId, cause, { now: at, newId });
  const evaluations = [
    asked('low', 'job_ended', 1),
    asked('app', 'job_ended', 2),
    asked('system', 'rebalance', 3),
    { ...asked('gone', 'removal', 4), priority: 100 },
  ];
  const columns = cellOf([
    ...Object.entries(priorities).map(([id, priority]) => entryOf(cellKeys.workload(id), workloadOf({ id, priority }))),
    ...evaluations.map((one) => entryOf(cellKeys.evaluation(one.id), one)),
  ]);
  const agendaOf = () => new Agenda({ columns, ledger: new Ledger(new HostTable()), id: 'h1', newId });
  const order = (agenda: Agenda) => agenda.broker.dequeue(10, 10).map(({ evaluation }) => evaluation.workloadId);
  const told = agendaOf();
  for (const one of evaluations) told.foldEvaluation(one, undefined, 10);
  assert.deepEqual(order(told), ['gone', 'system', 'app', 'low']);
  const repairing = agendaOf();
  repairing.repair(10);
  assert.deepEqual(order(repairing), ['gone', 'system', 'app', 'low']);
});

function entryOf(key: string, value: object) {
  return { key, value: JSON.stringify(value), modRevision: 1, createRevision: 1 };
}
