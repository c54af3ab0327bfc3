/** Buttons that do something: one click, or one click and an answer where something is lost. */
import type { ComponentChildren } from 'preact';
import { useId, useState } from 'preact/hooks';
import { useFocusLeft, useOpenDialog } from './focus.ts';
import { useAction } from './loading.ts';
import { DoingNotice } from './notices.tsx';

type Act = (once: string) => Promise<unknown>;

export function ActButton(props: {
  label: string;
  /** For who does not see what the button stands beside. */
  name?: string;
  act: Act;
  kind?: 'plain' | 'main' | 'danger';
  isDisabled?: boolean;
}) {
  const { doing, run } = useAction(props.act);
  const isPending = doing.is === 'pending';
  const own = useFocusLeft();
  return (
    <span class="act" ref={own}>
      <button
        type="button"
        class={props.kind ?? 'plain'}
        aria-label={props.name}
        aria-busy={isPending}
        // One that is disabled under the focus loses it. Pressed again it does nothing.
        aria-disabled={isPending}
        disabled={props.isDisabled}
        onClick={() => void run()}
      >
        {isPending ? `${props.label} …` : props.label}
      </button>
      <DoingNotice doing={doing} />
    </span>
  );
}

/** Asks first. `word`: has to be typed, where something is lost for good. */
export function AskedButton(props: {
  label: string;
  name?: string;
  title: string;
  confirm: string;
  act: Act;
  word?: string;
  isDanger?: boolean;
  isDisabled?: boolean;
  children?: ComponentChildren;
}) {
  const [isOpen, setIsOpen] = useState(false);
  const own = useFocusLeft();
  return (
    <span class="act" ref={own}>
      <button
        type="button"
        class={props.isDanger === true ? 'danger' : 'plain'}
        aria-label={props.name}
        disabled={props.isDisabled}
        onClick={() => setIsOpen(true)}
      >
        {props.label}
      </button>
      {isOpen ? <Question {...props} onClose={() => setIsOpen(false)} /> : null}
    </span>
  );
}

export function Question(props: {
  title: string;
  confirm: string;
  act: Act;
  word?: string;
  isDanger?: boolean;
  children?: ComponentChildren;
  onClose: () => void;
}) {
  const { title, confirm, word, isDanger = false, onClose, children } = props;
  const dialog = useOpenDialog();
  const [typed, setTyped] = useState('');
  const { doing, run } = useAction(props.act);
  const ids = { title: useId(), word: useId() };
  const submit = async (event: Event) => {
    event.preventDefault();
    if (await run()) onClose();
  };
  const isPending = doing.is === 'pending';
  return (
    <dialog ref={dialog} aria-labelledby={ids.title} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <h2 id={ids.title}>{title}</h2>
        {children}
        {word === undefined ? null : (
          <p>
            <label for={ids.word}>
              To go on, type <strong>{word}</strong>
            </label>
            <input
              id={ids.word}
              value={typed}
              autoComplete="off"
              autoCapitalize="off"
              spellcheck={false}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          </p>
        )}
        <DoingNotice doing={doing} />
        <p class="buttons">
          <button type="button" class="plain" onClick={onClose}>
            Leave it
          </button>
          <button
            type="submit"
            class={isDanger ? 'danger' : 'main'}
            aria-busy={isPending}
            disabled={isPending || (word !== undefined && typed !== word)}
          >
            {isPending ? `${confirm} …` : confirm}
          </button>
        </p>
      </form>
    </dialog>
  );
}
