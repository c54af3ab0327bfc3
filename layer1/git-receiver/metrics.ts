/** What the git receiver serves, as figures. */
import type { Metrics } from '@flynn/kit/metrics';
import type { SessionDeps } from './session.ts';

/** A push lasts until what it pushed is live. */
const bounds = [0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800];

/** For sessions: `git-receive-pack` is a push, `git-upload-pack` a clone or a fetch. */
export function receiverMetrics(metrics: Metrics): NonNullable<SessionDeps['onEnd']> {
  const commands = metrics.counter('flynn_git_commands_total', 'Commands that have ended, by service and result.');
  const seconds = metrics.histogram('flynn_git_command_duration_seconds', 'How long they took, by service.', bounds);
  return ({ service, code, tookMs }) => {
    commands.add({ service, result: code === 0 ? 'done' : 'failed' });
    seconds.observe({ service }, tookMs / 1_000);
  };
}
