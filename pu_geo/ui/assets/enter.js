// Enter in a text field within a container `enter-NAME` commits the field, then presses the button of the key NAME.
const press = (event) => {
  const around = event.key === "Enter" && !event.isComposing && event.target.closest?.('[class*="st-key-enter-"]');
  if (!around || event.target.tagName !== "INPUT") return;
  const sign = [...around.classList].find((name) => name.startsWith("st-key-enter-"));
  event.target.blur();
  setTimeout(() => document.querySelector(`.st-key-${sign.slice("st-key-enter-".length)} button`)?.click());
};

export default () => document.addEventListener("keydown", press, true); // for good: Streamlit also ends a call that a newer one overtook
