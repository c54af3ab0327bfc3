/**
 * Which logs of ended operations go before these do? They lie in the store that everything needs, whose room is bounded: the
 * oldest beyond what those of an app, and of all, may take.
 */
import type { Compare, Store } from '@flynn/store/store';
import type { EndedOperation, OperationHistory } from './history.ts';
import { dropLines, logSizes } from './log.ts';
import type { LogSize } from './log.ts';

const mebibyte = 1024 ** 2;
export const logRoom: LogRoom = { ofAppBytes: 32 * mebibyte, ofAllBytes: 256 * mebibyte };
/** To drop what is smaller gains nothing. What was dropped is. */
const leastBytes = 1024;
const readAtOnce = 100;

type LogRoom = Readonly<{ ofAppBytes: number; ofAllBytes: number }>;
type SizedRow = Pick<EndedOperation, 'id' | 'appId'> & Pick<LogSize, 'bytes'>;

/** Newest first given. Where one has no room, none that is older has. */
export function expiredLogs(rows: readonly SizedRow[], room: LogRoom = logRoom): string[] {
  const ofApps = new Map<string, number>();
  let ofAll = 0;
  return rows.flatMap(({ id, appId, bytes }) => {
    const ofApp = (ofApps.get(appId) ?? 0) + bytes;
    ofApps.set(appId, ofApp);
    const hasRoomInApp = ofApp <= room.ofAppBytes;
    // What goes for its app's sake takes no room of the others.
    if (hasRoomInApp) ofAll += bytes;
    return bytes <= leastBytes || (hasRoomInApp && ofAll <= room.ofAllBytes) ? [] : [id];
  });
}

/** Answers how many went. Those of live operations are never touched. */
export async function pruneLogs(
  { store, history }: { store: Store; history: OperationHistory },
  options: { signal: AbortSignal; epoch: Compare },
  room: LogRoom = logRoom,
): Promise<number> {
  const rows = await history.rows(options.signal);
  const sizes = new Map<string, LogSize>();
  for (let at = 0; at < rows.length; at += readAtOnce) {
    const ids = rows.slice(at, at + readAtOnce).map(({ id }) => id);
    for (const [id, size] of await logSizes(store, ids, options)) sizes.set(id, size);
  }
  const sized = rows.flatMap(({ id, appId }) => {
    const size = sizes.get(id);
    return size === undefined ? [] : [{ id, appId, bytes: size.bytes }];
  });
  let gone = 0;
  for (const id of expiredLogs(sized, room)) {
    const size = sizes.get(id);
    // Refused: it is gone whole, or the seat is.
    if (size !== undefined && (await dropLines(store, id, size, options))) gone += 1;
  }
  return gone;
}
