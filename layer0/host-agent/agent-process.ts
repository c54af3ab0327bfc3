/** The agent of a state directory as one of the machine's processes, whoever keeps it running. */
import { join } from 'node:path';
import { findProcesses, isShell } from '@flynn/kit/processes';

export const programFile = 'host-agent.mjs';

/** What is started: always the version installed last. */
export function installedProgram(stateDir: string): string {
  return join(stateDir, 'agent', 'current', programFile);
}

/** Whether these words started it. A supervisor has its program among its own, too. */
export function isAgent(command: readonly string[], stateDir: string): boolean {
  return command.at(-1) === installedProgram(stateDir) && !isShell(command);
}

export async function isAgentThere(stateDir: string): Promise<boolean> {
  return (await findProcesses((command) => isAgent(command, stateDir))).length > 0;
}
