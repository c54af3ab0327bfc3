/** Can the kernel's bridge rules tell one bridge from another? */
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { Run } from './program.ts';

/** A script that nft only checks. A chain ends with its line: nft wants one, or a semicolon, behind each brace. */
export function bridgeProbe(match: string): string {
  return `table bridge flynn_probe {
  chain probe {
    type filter hook prerouting priority 0;
    ${match} drop
  }
}
`;
}

/**
 * Debian's and Ubuntu's kernels can; without it the bridge's frames are known by their addresses alone. A refusal for any other
 * reason is taken for no as well, and told: the kernel may not have been asked at all.
 */
export async function canMatchBridge(run: Run, log: Logger, signal: AbortSignal): Promise<boolean> {
  try {
    await run({ program: 'nft', args: ['-c', '-f', '-'], input: bridgeProbe('meta ibrname "flynn"') }, signal);
    return true;
  } catch (error) {
    const message = messageOf(error);
    if (signal.aborted || message.includes('not on this machine')) throw error;
    if (!message.includes('Operation not supported')) {
      log.warn(`frames on the bridge are known by their addresses alone: nft did not take what was asked: ${message}`);
    }
    return false;
  }
}
