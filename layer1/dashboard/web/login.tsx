/**
 * The form for a token. One that came in the address stands in it, and waits for a click: whoever follows a link of somebody else
 * is not to find themselves at work as that person.
 */
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { Api } from './api/client.ts';
import { useAction } from './parts/loading.ts';
import { DoingNotice } from './parts/notices.tsx';

export function Login(props: {
  api: Api;
  why?: string | undefined;
  token?: string | undefined;
  onLoggedIn: () => Promise<void>;
}) {
  const { api, why, token: given, onLoggedIn } = props;
  const [token, setToken] = useState(given ?? '');
  const id = useId();
  const field = useRef<HTMLInputElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const { doing, run } = useAction(async (_once, wanted: string) => {
    await api.logIn(wanted);
    await onLoggedIn();
  });
  useEffect(() => {
    if (given === undefined) return field.current?.focus();
    setToken(given);
    button.current?.focus();
  }, [given]);
  const isPending = doing.is === 'pending';
  const submit = (event: Event) => {
    event.preventDefault();
    void run(token.trim());
  };
  return (
    <>
      <h1>flynn</h1>
      {why === undefined ? null : (
        <p class="notice" role="status">
          {why}
        </p>
      )}
      {given === undefined ? null : (
        <p class="notice" role="status">
          The link that you opened logs you in as whoever made it. Go on if that was you; else close this page.
        </p>
      )}
      <form onSubmit={submit}>
        <label for={id}>Token</label>
        <input
          id={id}
          ref={field}
          name="token"
          type="password"
          autoComplete="current-password"
          required
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <button
          ref={button}
          type="submit"
          class="main"
          aria-busy={isPending}
          disabled={isPending || token.trim() === ''}
        >
          {isPending ? 'Logging in …' : 'Log in'}
        </button>
        <DoingNotice doing={doing} />
      </form>
      <p class="dim">
        In a terminal, <code>flynn dashboard</code> opens this page with one; <code>flynn token create browser</code>{' '}
        makes a token to paste here.
      </p>
    </>
  );
}
