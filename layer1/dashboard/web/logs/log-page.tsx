/** An app's log as it comes. */
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { Line } from '@flynn/log-aggregator/api';
import { type Link as Connection, pause } from '../api/following.ts';
import { readLines } from '../api/streams.ts';
import { Bursts } from '../parts/bursts.ts';
import { DrawnBlocks } from '../parts/drawn-blocks.tsx';
import { useServices } from '../parts/services.ts';
import { useIsWatched } from '../parts/watched.ts';
import type { AppView } from '../world/app-state.ts';
import { spansOf } from './ansi.ts';
import { added, emptyLog, followed, type LogBuffer, mostLines } from './log-buffer.ts';
import { followLog, gapCommand, type LogItem, type LogQuery, logStart } from './log-following.ts';

const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
});

/** So near to the end one is at it. */
const nearPx = 40;

export function LogPage({ view }: { view: AppView }) {
  const { app, counts, jobs } = view;
  const [type, setType] = useState('');
  const [job, setJob] = useState('');
  const [search, setSearch] = useState('');
  const [typed, setTyped] = useState('');
  const ids = { type: useId(), job: useId(), search: useId() };
  const types = [...new Set([...counts.map((count) => count.type), ...jobs.map((one) => one.type)])].toSorted();
  const query: LogQuery = {
    app: app.name,
    ...(type === '' ? {} : { type }),
    ...(job === '' ? {} : { job }),
    ...(search === '' ? {} : { search }),
  };
  const submit = (event: Event) => {
    event.preventDefault();
    setSearch(typed);
  };
  return (
    <>
      <form class="filters" onSubmit={submit}>
        <span>
          <label for={ids.type}>Process</label>
          <select id={ids.type} value={type} onChange={(event) => setType(event.currentTarget.value)}>
            <option value="">all</option>
            {types.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </span>
        <span>
          <label for={ids.job}>Instance</label>
          <select id={ids.job} value={job} onChange={(event) => setJob(event.currentTarget.value)}>
            <option value="">all</option>
            {jobs
              .filter((one) => type === '' || one.type === type)
              .map((one) => (
                <option key={one.id} value={one.id}>
                  {one.type} {one.id.slice(-6)} ({one.state})
                </option>
              ))}
          </select>
        </span>
        <span class="grow">
          <label for={ids.search}>With this text (upper and lower case apart)</label>
          <input
            id={ids.search}
            type="search"
            value={typed}
            spellcheck={false}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </span>
        <button type="submit" class="plain">
          Search
        </button>
      </form>
      <LogLines key={JSON.stringify(query)} query={query} />
    </>
  );
}

function LogLines({ query }: { query: LogQuery }) {
  const { buffer, link, setIsFollowing } = useLog(query);
  const { kept, isFollowing, unread } = buffer;
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (isFollowing && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [kept, isFollowing]);
  const watch = () => {
    const at = box.current;
    if (at !== null) setIsFollowing(at.scrollHeight - at.scrollTop - at.clientHeight < nearPx);
  };
  return (
    <div class="log">
      <div
        class="lines tall"
        role="log"
        aria-live="off"
        aria-label={`Log of ${query.app}`}
        tabIndex={0}
        ref={box}
        onScroll={watch}
      >
        <DrawnBlocks blocks={kept} draw={(item) => <Item item={item} query={query} />} />
        {kept.length === 0 && link.is === 'live' ? (
          <p class="dim">{query.search === undefined ? 'Nothing was said yet.' : 'No line has that text.'}</p>
        ) : null}
      </div>
      <div class="log-foot">
        <span role="status" class={link.is === 'live' ? 'dim' : 'short'}>
          {linkText(link)}
        </span>
        {isFollowing ? null : (
          <button type="button" class="main small" onClick={() => setIsFollowing(true)}>
            {unread === 0 ? 'To the end' : `${unread} new, to the end`}
          </button>
        )}
      </div>
    </div>
  );
}

function LogLine({ line }: { line: Line }) {
  const { timestamp, processType, jobId, stream, message } = line;
  return (
    <div class={stream === 'stderr' ? 'line line-stderr' : 'line'}>
      <time dateTime={timestamp} title={`${new Date(timestamp).toLocaleString()}, ${line.hostId}`}>
        {clock.format(new Date(timestamp))}
      </time>{' '}
      <span class="line-source" title={jobId}>
        {jobId === '' ? 'flynn' : `${processType}[${jobId.slice(-6)}]`}
      </span>{' '}
      <span class="line-text">
        {spansOf(message).map(({ text, classes }, at) => (
          <span key={at} class={classes}>
            {text}
          </span>
        ))}
      </span>
    </div>
  );
}

function Item({ item, query }: { item: LogItem; query: LogQuery }) {
  if (item.is === 'line') return <LogLine line={item.line} />;
  if (item.is === 'gap') return <Gap gap={item} query={query} />;
  return <div class="line line-gap">A line that cannot be read is left out here: a disk damaged it.</div>;
}

function Gap({ gap, query }: { gap: { from: string; to: string }; query: LogQuery }) {
  return (
    <div class="line line-gap">
      Lines may be missing here. What is kept of them: <code>{gapCommand(gap, query)}</code>
    </div>
  );
}

function linkText(link: Connection): string {
  switch (link.is) {
    case 'connecting':
      return 'Connecting …';
    case 'live':
      return 'Following';
    case 'lost':
      return `Lost the log (${link.why}); trying again.`;
    case 'refused':
    default:
      return link.why;
  }
}

function useLog(query: LogQuery): {
  buffer: LogBuffer;
  link: Connection;
  setIsFollowing: (isFollowing: boolean) => void;
} {
  const { api } = useServices();
  const [buffer, setBuffer] = useState(emptyLog);
  const [link, setLink] = useState<Connection>({ is: 'connecting' });
  const [place] = useState(logStart);
  const [bursts] = useState(
    () => new Bursts<LogItem>((items) => setBuffer((buffer) => added(buffer, items)), mostLines),
  );
  useEffect(() => () => bursts.clear(), []);
  const isWatched = useIsWatched();
  useEffect(() => {
    if (!isWatched) return undefined;
    const ended = new AbortController();
    const { signal } = ended;
    void followLog(query, {
      open: async (url) => readLines(await api.stream(url, { signal })),
      onItem: (item) => bursts.add(item),
      onLink: setLink,
      signal,
      wait: pause,
      now: Date.now,
      place,
    });
    return () => ended.abort();
  }, [isWatched]);
  return { buffer, link, setIsFollowing: (isFollowing) => setBuffer((buffer) => followed(buffer, isFollowing)) };
}
