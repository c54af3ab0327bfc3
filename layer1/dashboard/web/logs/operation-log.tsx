/** What an operation says, as it comes. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { apiUrl } from '../api/client.ts';
import { follow, type Link as Connection, pause } from '../api/following.ts';
import { readEvents } from '../api/streams.ts';
import { type Blocks, grown, newest } from '../parts/blocks.ts';
import { Bursts } from '../parts/bursts.ts';
import { DrawnBlocks } from '../parts/drawn-blocks.tsx';
import { Commands } from '../parts/notices.tsx';
import { useServices } from '../parts/services.ts';
import { useIsWatched } from '../parts/watched.ts';
import { spansOf } from './ansi.ts';

const mostLines = 10_000;

export function OperationLog({ id }: { id: string }) {
  const { lines, link } = useOperationLog(id);
  const box = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (isAtEnd.current && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  const watch = () => {
    const pre = box.current;
    if (pre !== null) isAtEnd.current = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
  };
  const isWhole = (lines[0]?.key ?? 0) === 0;
  return (
    <>
      {isWhole ? null : (
        <div class="notice">
          The beginning is not shown. All of it: <Commands lines={[`flynn op log ${id}`]} />
        </div>
      )}
      <pre class="lines tall" tabIndex={0} aria-label="Its log" ref={box} onScroll={watch}>
        <DrawnBlocks blocks={lines} draw={(line) => <Line text={line} />} />
        {lines.length === 0 ? <span class="dim">Nothing yet.</span> : null}
      </pre>
      <div role="status" class="dim">
        {link.is === 'lost' ? `Lost the log (${link.why}); trying again.` : null}
        {link.is === 'refused' ? link.why : null}
      </div>
    </>
  );
}

function Line({ text }: { text: string }) {
  return (
    <div class="line">
      {spansOf(text).map((span, part) => (
        <span key={part} class={span.classes}>
          {span.text}
        </span>
      ))}
    </div>
  );
}

function useOperationLog(id: string): { lines: Blocks<string>; link: Connection } {
  const { api } = useServices();
  const [lines, setLines] = useState<Blocks<string>>([]);
  const [link, setLink] = useState<Connection>({ is: 'connecting' });
  /** How far it was told. */
  const place = useMemo(
    (): { lastId: string | undefined; isWhole: boolean } => ({ lastId: undefined, isWhole: false }),
    [id],
  );
  const bursts = useMemo(
    () => new Bursts<string>((more) => setLines((known) => newest(grown(known, more), mostLines)), mostLines),
    [id],
  );
  useEffect(() => () => bursts.clear(), [bursts]);
  const isWatched = useIsWatched();
  useEffect(() => {
    if (!isWatched || place.isWhole) return undefined;
    const ended = new AbortController();
    const { signal } = ended;
    const url = apiUrl('/operations/:operation/log', { params: { operation: id } });
    void follow({
      open: async (lastEventId) => readEvents(await api.stream(url, { signal, lastEventId })),
      after: place.lastId,
      onBegin: () => {
        place.lastId = undefined;
        bursts.clear();
        setLines([]);
      },
      onEvent: ({ id: eventId, event, data }) => {
        place.lastId = eventId ?? place.lastId;
        place.isWhole = event === 'end';
        if (event === 'line') bursts.add((data as { text: string }).text);
      },
      isLast: ({ event }) => event === 'end',
      onLink: setLink,
      signal,
      wait: pause,
    });
    return () => ended.abort();
  }, [id, isWatched]);
  return { lines, link };
}
