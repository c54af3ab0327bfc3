import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Agenda } from './agenda.ts';
import { cellKeys } from './cell.ts';
import { advance, makeEvaluation } from './evaluations.ts';
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

test('what was woken while its plan was on its way is looked at once more, also when the watch tells later that it waits', () => {
  let ids = 0;
  const newId = () => `i${(ids += 1)}`;
  const asked = makeEvaluation('web', 'capacity', { now: 1, newId }, { previousId: 'i0' });
  const blocked = { ...asked, state: 'blocked' as const, reason: '0 placed, 1 waiting: memory (1 host full)' };
  const columns = cellOf([
    entryOf(cellKeys.workload('web'), workloadOf()),
    entryOf(cellKeys.evaluation(blocked.id), blocked),
  ]);
  const comesAgain = (told: 'blocked' | 'complete') => {
    const agenda = new Agenda({ columns, ledger: new Ledger(new HostTable()), id: 'h1', newId });
    agenda.broker.enqueue(advance(blocked, 'pending', 2), 2);
    const [delivery] = agenda.broker.dequeue(2, 1);
    assert.ok(delivery !== undefined);
    agenda.broker.enqueue(advance(blocked, 'pending', 3), 3);
    agenda.foldEvaluation({ ...blocked, state: told, updatedAt: 3 }, blocked, 4);
    agenda.done(delivery.evaluation, delivery.token, 5);
    return agenda.broker.dequeue(5, 1).some(({ evaluation }) => evaluation.id === blocked.id);
  };
  assert.equal(comesAgain('blocked'), true);
  assert.equal(comesAgain('complete'), false);
});

function entryOf(key: string, value: object) {
  return { key, value: JSON.stringify(value), modRevision: 1, createRevision: 1 };
}
