/** What a page says beside what it shows: what failed, what is missing, what is being read. */
import type { ComponentChildren } from 'preact';
import type { Failure } from '../api/failure.ts';
import type { Doing, Loaded } from './loading.ts';

/** The API's own words, which may have several lines: what happened, then what to do. */
export function FailureNotice({ failure, onRetry }: { failure: Failure; onRetry?: () => void }) {
  return (
    <div class="notice notice-bad" role="alert">
      <p class="words">{failure.message}</p>
      {onRetry === undefined ? null : (
        <button type="button" class="small" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function DoingNotice({ doing }: { doing: Doing }) {
  return doing.is === 'failed' ? <FailureNotice failure={doing.failure} /> : null;
}

/** Nothing is there yet; what to type, or to do, so that there is. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** Commands to type. */
export function Commands({ lines }: { lines: readonly string[] }) {
  return (
    <pre class="commands">
      <code>{lines.join('\n')}</code>
    </pre>
  );
}

export function Reading({ what }: { what: string }) {
  return (
    <p class="reading" role="status">
      Reading {what} …
    </p>
  );
}

/** What was read, or that it is being read, or why it could not be. */
export function Shown<T>({
  loaded,
  what,
  reload,
  children,
}: {
  loaded: Loaded<T>;
  what: string;
  reload: () => void;
  children: (value: T) => ComponentChildren;
}) {
  switch (loaded.is) {
    case 'loading':
      return <Reading what={what} />;
    case 'failed':
      return <FailureNotice failure={loaded.failure} onRetry={reload} />;
    case 'ready':
    default:
      return (
        <>
          {loaded.failure === undefined ? null : <FailureNotice failure={loaded.failure} onRetry={reload} />}
          {children(loaded.value)}
        </>
      );
  }
}
