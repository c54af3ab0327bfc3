/** The kind Runner: who carries operations out. They come by registering, and are looked at here. */
import { runnerType } from '../resources.ts';
import { viewRunner } from '../operations/runner-registry.ts';
import { defineKind } from './kind.ts';

export const runnerKind = defineKind({
  type: runnerType,
  summary: 'what carries out operations: it registers itself, and is adopted with "flynn runner adopt"',
  columns: { STATE: 'status.state', SLOTS: 'spec.slots', LABELS: 'spec.labels', SEEN: 'status.seenAt' },
  isReadOnly: true,
  async view(deps, runner) {
    const { id: _id, createdAt: _createdAt, state, operations, seenAt, ...spec } = viewRunner(deps, runner);
    return { spec, status: { state, operations, seenAt } };
  },
});
