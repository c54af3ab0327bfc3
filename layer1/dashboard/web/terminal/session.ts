/** A terminal's bytes over a WebSocket: binary messages are bytes both ways, text ones are what stands here. */
export type TerminalState =
  | Readonly<{ is: 'connecting' }>
  | Readonly<{ is: 'open' }>
  | Readonly<{ is: 'exited'; code: number }>
  | Readonly<{ is: 'failed'; why: string }>;

/** Without a command: a shell. */
export type TerminalTarget =
  | Readonly<{ is: 'run'; app: string; command: readonly string[] | undefined }>
  | Readonly<{ is: 'exec'; app: string; job: string; command: readonly string[] | undefined }>;

export type Size = Readonly<{ columns: number; rows: number }>;

export function terminalUrl(target: TerminalTarget, { columns, rows }: Size, origin: string): string {
  const url = new URL(`/terminal/${target.is}`, origin);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  const query = {
    app: target.app,
    ...(target.is === 'exec' ? { job: target.job } : {}),
    ...(target.command === undefined ? {} : { command: JSON.stringify(target.command) }),
    columns: String(columns),
    rows: String(rows),
    term: 'xterm-256color',
  };
  url.search = new URLSearchParams(query).toString();
  return url.href;
}

/** What a text message of the server says; undefined for what this version does not know. */
export function stateOfMessage(text: string): TerminalState | undefined {
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof message !== 'object' || message === null || !('type' in message)) return undefined;
  if (message.type === 'exit' && 'code' in message) return { is: 'exited', code: Number(message.code) };
  if (message.type === 'error' && 'message' in message) return { is: 'failed', why: String(message.message) };
  return undefined;
}

/** A connection that closes without having said how it ended has failed. */
export function stateAtClose(state: TerminalState, close: { code: number; reason: string }): TerminalState {
  if (state.is === 'exited' || state.is === 'failed') return state;
  const reason = close.reason === '' ? `the connection broke (${close.code})` : close.reason;
  return { is: 'failed', why: state.is === 'connecting' ? `it did not come about: ${reason}` : reason };
}

/** A command line as somebody types it: through a shell, so that quotes and pipes are what they are there. */
export function commandOf(line: string): string[] | undefined {
  return line.trim() === '' ? undefined : ['sh', '-c', line];
}
